"""Type checkers accept programs of users, and refuse wrong ones: the stubs say what the module does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hooked
import pytest

HERE = Path(__file__).resolve().parent
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
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return folder


def _check(command: list[str], programs: Path, environment: dict[str, str]) -> None:
    """The checker has nothing to say about the right program and the package, and objects to each wrong line."""
    done = subprocess.run(command, cwd=programs, env=environment, capture_output=True, text=True, timeout=600)
    errors = [line for line in done.stdout.splitlines() if "error" in line and ".py" in line]
    assert not [line for line in errors if "wrong.py" not in line], done.stdout + done.stderr
    for number in (4, 5, 6, 7, 8):
        assert any(f"wrong.py:{number}:" in line for line in errors), done.stdout + done.stderr


def test_mypy(environment: dict[str, str], programs: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "right.py", "wrong.py"]
    _check(command, programs, environment)


def test_pyright(environment: dict[str, str], programs: Path) -> None:
    pyright = shutil.which("pyright", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if pyright is None:
        pytest.skip("pyright is not installed")
    _check([pyright, "--pythonpath", sys.executable, "-p", "."], programs, environment)


def test_the_program_runs(model: hooked.HookedTransformer, capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(HERE))
    try:
        import typed_example
    finally:
        sys.path.remove(str(HERE))
    typed_example.main(model.provenance.model)
    assert "BLOCKS.1.HOOK_RESID_POST" in capsys.readouterr().out
