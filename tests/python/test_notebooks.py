"""The notebooks run, and show what is stored in them."""

import json
from pathlib import Path

import pytest

import notebook

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["attribution_and_lens", "cache_and_patch", "hooks_and_steering"]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_cells_show_what_is_stored(file: Path) -> None:
    content, outputs = notebook.run(file)
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in cells)
    for cell, shown in zip(cells, outputs, strict=True):
        stored, now = notebook.texts(cell["outputs"]), notebook.texts(shown)
        assert notebook.same_up_to_rounding(stored, now), f"{''.join(cell['source'])}\nstored:\n{stored}\nnow:\n{now}"


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_nothing_of_a_machine_is_stored(file: Path) -> None:
    text = json.dumps(json.loads(file.read_text()))
    assert not [word for word in ("/home/", "/root/", "/tmp/", "/work/", str(Path.home())) if word in text]


def test_a_number_that_differs_is_seen() -> None:
    assert notebook.same_up_to_rounding("Mary 9.54\n", "Mary 9.55\n")
    assert not notebook.same_up_to_rounding("Mary 9.54\n", "Mary 9.64\n")
    assert not notebook.same_up_to_rounding("Mary 9.54\n", "John 9.54\n")
