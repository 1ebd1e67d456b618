"""What the installed package says of itself."""

import importlib.machinery
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import hooked
import pytest
import torch

PACKAGE = Path(hooked.__file__).parent


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_version_is_that_of_the_engine() -> None:
    root = Path(__file__).parents[2]
    assert hooked.__version__ == (root / "VERSION").read_text().strip()


def test_there_is_one_libtorch_in_the_process() -> None:
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libtorch_cpu.so" in line}
    assert len(loaded) == 1
    assert Path(next(iter(loaded))).parent == Path(torch.__file__).resolve().parent / "lib"


def test_no_build_that_fits_is_an_error_that_names_the_builds(tmp_path: Path) -> None:
    folder = tmp_path / "torch-2.11"
    folder.mkdir()
    (folder / f"_hooked{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
    code = (
        "import pathlib, sys; from hooked import _builds; del sys.modules['hooked._hooked']; "
        f"_builds._folders = lambda: [pathlib.Path('{folder}')]; _builds.load('9.7.0')"
    )
    if os.environ.get("HOOKED_PYTHON_BUILD"):
        pytest.skip("HOOKED_PYTHON_BUILD names the build")
    said = run_python(code).stderr
    assert "[hooked] no build of the engine fits torch 9.7.0" in said
    assert "expected one of the torch versions 2.11" in said
    assert "./python" in said


def test_the_engine_is_an_attribute_of_the_package() -> None:
    assert hooked._hooked is sys.modules["hooked._hooked"]


def installed_files() -> list[str]:
    try:
        distribution = importlib.metadata.distribution("hooked-transformer")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("hooked is imported from a checkout and not from a wheel")
    return [str(file) for file in distribution.files or []]


def test_wheel_has_types_stubs_and_licences() -> None:
    files = installed_files()
    for name in ("hooked/py.typed", "hooked/_hooked/__init__.pyi", "hooked/licenses/LICENSE", "hooked/licenses/THIRD_PARTY_NOTICES.md"):
        assert name in files
    assert any(file.startswith("hooked/torch-") and "_hooked" in file for file in files)


def test_wheel_has_no_copy_of_torch() -> None:
    assert not [file for file in installed_files() if Path(file).name.startswith(("libtorch", "libc10", "libcudart", "libgomp"))]


def test_importing_costs_little_beyond_torch() -> None:
    """0.3 s is the target. Processor time, since other programs may run."""
    code = "import torch, time; start = time.process_time(); import hooked; print(time.process_time() - start)"
    assert min(float(run_python(code).stdout) for _ in range(3)) < 0.45
