"""Type checkers accept programs of users, and refuse wrong ones: the stubs say what the module does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hooked
import pytest

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples" / "python"
WRONG = """
from hooked import HookedTransformer

model = HookedTransformer.load("folder", device=3)
model.run("text", hoks=[])
model.run("text", stop_at_layer="one")
model.run(3.5)
number: int = model.run("text").logits
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which checkers find the package and its stubs, which an installed package has inside."""
    package = Path(hooked.__file__).parent
    if (package / "_hooked" / "__init__.pyi").exists():
        return dict(os.environ)
    build = os.environ.get("HOOKED_PYTHON_BUILD")
    if build is None or not (Path(build) / "stubs").exists():
        pytest.skip("the stubs are neither in the package nor in a build")
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(package, folder / "hooked", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(build) / "stubs" / "_hooked", folder / "hooked" / "_hooked")
    return {**os.environ, "MYPYPATH": str(folder), "PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    shutil.copy(HERE / "typed_example.py", folder / "right.py")
    (folder / "wrong.py").write_text(WRONG)
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    # Strict where a program has annotations; what torch itself leaves without a type is not the examples' matter.
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard", "strict": ["right.py", "wrong.py"]}')
    return folder


def _pyright(folder: Path, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command for pyright on a folder, and its variables: with the Node.js of the test's requirements."""
    pytest.importorskip("pyright")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(folder)]
    return command, {**environment, "PYRIGHT_PYTHON_GLOBAL_NODE": "0"}


def _check(command: list[str], programs: Path, environment: dict[str, str]) -> None:
    """The checker has nothing to say about the right programs and the package, and objects to each wrong line."""
    done = subprocess.run(command, cwd=programs, env=environment, capture_output=True, text=True, timeout=600)
    errors = [line for line in done.stdout.splitlines() if "error" in line and ".py" in line]
    assert not [line for line in errors if "wrong.py" not in line], done.stdout + done.stderr
    for number in (4, 5, 6, 7, 8):
        assert any(f"wrong.py:{number}:" in line for line in errors), done.stdout + done.stderr


def test_mypy(environment: dict[str, str], programs: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "."]
    _check(command, programs, environment)


def test_pyright(environment: dict[str, str], programs: Path) -> None:
    command, variables = _pyright(programs, environment)
    _check(command, programs, variables)


def test_stubs_name_types_that_exist(environment: dict[str, str], tmp_path: Path) -> None:
    """A checker takes a name that it cannot find for Any, and then finds nothing wrong with any argument."""
    package = Path(environment.get("MYPYPATH", Path(hooked.__file__).parents[1])) / "hooked"
    shutil.copytree(package / "_hooked", tmp_path / "_hooked")
    rules = dict.fromkeys(
        ("reportUndefinedVariable", "reportMissingTypeArgument", "reportAttributeAccessIssue"), "error"
    )
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "off", **rules}))
    command, variables = _pyright(tmp_path, environment)
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_runs(model: hooked.HookedTransformer, capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(HERE))
    try:
        import typed_example
    finally:
        sys.path.remove(str(HERE))
    typed_example.main(model.provenance.model)
    assert "BLOCKS.1.HOOK_RESID_POST" in capsys.readouterr().out
