"""The notebooks run, and show what is stored in them."""

import json
import subprocess
from pathlib import Path

import pytest

import notebook

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
# Those that are a C++ program, too.
PROGRAMS = ["indirect_object_circuit", "induction_positions", "modular_addition", "toy_superposition"]


def test_all_are_there() -> None:
    names = ["attribution_and_lens", "cache_and_patch", "features", "harvest_and_probe", "hooks_and_steering", "induction_heads", *PROGRAMS]
    assert [file.stem for file in NOTEBOOKS] == sorted(names)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_cells_show_what_is_stored(file: Path) -> None:
    content, outputs = notebook.run(file)
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in cells)
    for cell, shown in zip(cells, outputs, strict=True):
        stored, now = notebook.texts(cell["outputs"]), notebook.texts(shown)
        assert notebook.same_up_to_rounding(stored, now), f"{''.join(cell['source'])}\nstored:\n{stored}\nnow:\n{now}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_prints_what_is_stored(name: str) -> None:
    folders = [ROOT / "build" / preset / "bin" for preset in ("release", "dev", "python")]
    program = next((folder / name for folder in folders if (folder / name).exists()), None)
    if program is None:
        pytest.skip(f"the C++ example {name} is not built")
    printed = subprocess.run([program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    content = json.loads((ROOT / "examples" / "notebooks" / f"{name}.ipynb").read_text())
    stored = "".join("".join(output["text"]) for cell in content["cells"] for output in cell.get("outputs", []) if "text" in output)
    assert notebook.same_up_to_rounding(stored, printed), f"stored:\n{stored}\nprinted:\n{printed}"


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_nothing_of_a_machine_is_stored(file: Path) -> None:
    text = json.dumps(json.loads(file.read_text()))
    assert not [word for word in ("/home/", "/root/", "/tmp/", "/work/", str(Path.home())) if word in text]


def test_a_number_that_differs_is_seen() -> None:
    assert notebook.same_up_to_rounding("Mary 9.54\n", "Mary 9.55\n")
    assert not notebook.same_up_to_rounding("Mary 9.54\n", "Mary 9.64\n")
    assert not notebook.same_up_to_rounding("Mary 9.54\n", "John 9.54\n")
