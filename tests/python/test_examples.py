"""The examples print what their C++ counterparts print, and write the same files.

To the last bit where both run in the same LibTorch, to the digits that are meant where the module is of another one.
"""

import filecmp
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "examples" / "python"
BINARIES = [ROOT / "build" / preset / "bin" for preset in ("release", "dev", "python")]

# Those that take a folder for files after the model.
WRITE = [
    "analysis_circuits",
    "analysis_directions",
    "analysis_features",
    "analysis_gradients",
    "analysis_grid",
    "analysis_heads",
    "analysis_lens",
    "analysis_pairs",
    "analysis_paths",
    "analysis_residual",
    "figures",
    "guide_collect",
    "guide_patch",
]
PRINT = ["activation_patching", "analysis_induction", "guide_ablate", "guide_attribute", "guide_circuit", "guide_steer"]
# Those that print tensors, which C++ and Python print differently.
TENSORS = ["analysis_pairs"]


def numbers(text: str) -> list[tuple[float, float]]:
    """Numbers, each with how far a number may be that rounds to it. C++ may print a factor of all numbers first."""
    found = []
    for part in text.split("[ CPUFloatType"):
        factor = re.search(r"([\d.e+-]+) \*\n", part)
        times = float(factor[1]) if factor else 1.0
        for whole, fraction in re.findall(r"(-?\d+)\.(\d+)(?!\S*\})", part.replace(factor[0], "") if factor else part):
            found.append((float(f"{whole}.{fraction}") * times, 0.51 * times * 10.0 ** -len(fraction)))
    return found


def same_numbers(made: str, expected: str) -> None:
    values = [float(number) for number in re.findall(r"-?\d+\.\d+(?:e[+-]\d+)?", made)]
    wanted = numbers(expected)
    assert len(values) == len(wanted)
    for value, (number, within) in zip(values, wanted):
        assert abs(value - number) <= within


def same_text_but_for_rounding(made: str, expected: str) -> None:
    number = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
    assert re.sub(number, "#", made) == re.sub(number, "#", expected)
    values, wanted = ([float(text) for text in re.findall(number, side)] for side in (made, expected))
    assert values == pytest.approx(wanted, rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("name", WRITE + PRINT)
def test_prints_what_the_cpp_example_prints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = next((folder / name for folder in BINARIES if (folder / name).exists()), None)
    if program is None:
        pytest.skip(f"the C++ example {name} is not built")
    said = subprocess.run([program.parent / "hooked", "--version"], capture_output=True, text=True, check=True).stdout
    same_torch = f"(LibTorch {torch.__version__.partition('+')[0]})" in said
    written = []
    texts = []
    for kind in ("cpp", "python"):
        folder = tmp_path / kind / "files"
        folder.mkdir(parents=True)
        monkeypatch.chdir(ROOT)
        arguments = ["examples/toy_model", *([str(folder)] if name in WRITE else [])]
        if kind == "cpp":
            text = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
        else:
            monkeypatch.setattr(sys, "argv", [str(PYTHON / f"{name}.py"), *arguments])
            monkeypatch.syspath_prepend(str(PYTHON))
            capfd.readouterr()
            runpy.run_path(str(PYTHON / f"{name}.py"), run_name="__main__")
            text = capfd.readouterr().out
        texts.append(text.replace(str(folder), "FOLDER"))
        written.append(folder)
    if name in TENSORS:
        same_numbers(texts[1], texts[0])
    elif same_torch:
        assert texts[1] == texts[0]
    else:
        same_text_but_for_rounding(texts[1], texts[0])
    files = sorted(file.name for file in written[0].iterdir())
    assert files == sorted(file.name for file in written[1].iterdir())
    if same_torch:
        assert filecmp.cmpfiles(*written, files, shallow=False) == (files, [], [])
