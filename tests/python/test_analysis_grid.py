"""Grids as Python people expect them."""

import base64
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import hooked
from hooked import Grid, GridAxis

pandas = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")

VALUES = torch.tensor([[1.0, -2.5, math.nan], [0.125, 7.0, 3.0]])


def grid() -> Grid:
    heads = GridAxis("head", ["0", "1", "2"])
    layers = GridAxis("layer", ["0", "1"], places=["blocks.0.attn.hook_z", "blocks.1.attn.hook_z"])
    return Grid(VALUES, [layers, heads], title="Scores", unit="logits")


def test_numbers_cross_as_float64() -> None:
    made = grid()
    assert made.values.dtype == torch.float64
    assert torch.equal(made.values.nan_to_num(9), VALUES.double().nan_to_num(9))
    assert np.array_equal(made.numpy(), VALUES.double().numpy(), equal_nan=True)
    assert np.array_equal(np.asarray(made), VALUES.double().numpy(), equal_nan=True)
    assert np.asarray(made, dtype=np.float32).dtype == np.float32
    assert np.nanmax(made) == 7.0


def test_places_by_index_and_by_label() -> None:
    made = grid()
    assert made.at([1, -1]) == 3.0
    assert made[1, "0"] == 0.125
    assert made[1].values.tolist() == [0.125, 7.0, 3.0]
    assert made.slice("head", "1").values.tolist() == [-2.5, 7.0]
    assert made.slice("head", -1).axes[0].name == "layer"
    cell = made.cell([1, 2])
    assert (cell.labels, cell.value, str(cell.place)) == (["1", "2"], 3.0, "blocks.1.attn.hook_z[head=2]")
    assert [c.value for c in made.largest(2, "size")] == [7.0, 3.0]
    assert [c.value for c in made.largest(2)] == [7.0, 3.0]
    with pytest.raises(hooked.ShapeError, match="head"):
        made.slice("neuron", 0)
    with pytest.raises(hooked.ShapeError, match="at most 2"):
        made[0, 0, 0]


def test_arithmetic_is_that_of_torch() -> None:
    made = grid()
    values = VALUES.double()
    for result, expected in (
        (made - 1, values - 1),
        (made + 2, values + 2),
        (2 + made, values + 2),
        (made * 3, values * 3),
        (3 * made, values * 3),
        (made - made.slice("layer", 0), values - values[0]),
        (made.rescaled(1.0, 3.0, "share"), (values - 1) / 2),
    ):
        assert torch.equal(result.values.nan_to_num(99), expected.nan_to_num(99))
    assert made.mean("head").values.tolist() == [-0.75, pytest.approx((0.125 + 7 + 3) / 3)]
    assert made.with_title("Other").title == "Other" and made.with_unit("nats").unit == "nats"
    assert made.with_labels("head", ["a", "b", "c"])[0, "b"] == -2.5


def test_pandas_has_the_labels() -> None:
    long = grid().to_pandas()
    assert list(long.columns) == ["layer", "layer address", "head", "value"]
    assert len(long) == 6
    assert long[(long.layer == "1") & (long["head"] == "1")].value.item() == 7.0
    assert long["layer address"].iloc[5] == "blocks.1.attn.hook_z"
    assert long.attrs == {"title": "Scores", "unit": "logits"}
    wide = grid().to_pandas(wide=True)
    assert wide.loc["1", "2"] == 3.0 and wide.index.name == "layer" and wide.columns.name == "head"
    cube = Grid(torch.arange(8.0).view(2, 2, 2), [GridAxis(name, ["x", "y"]) for name in "abc"])
    assert cube.to_pandas(wide=True).loc[("y", "x"), "y"] == 5.0
    assert cube.slice("a", 0).slice("b", 0).to_pandas(wide=True).loc["y", "value"] == 1.0
    assert cube.mean("a").mean("b").mean("c").to_pandas().value.tolist() == [3.5]


def test_frames_and_arrays_are_copies() -> None:
    made = grid()
    long, wide, array = made.to_pandas(), made.to_pandas(wide=True), made.to_xarray()
    long.loc[0, "value"] = 5.0
    wide.iloc[0, 0] = 5.0
    array[0, 0] = 5.0
    assert long.value[0] == wide.iloc[0, 0] == array[0, 0] == 5.0
    assert made.at([0, 0]) == 1.0


def test_long_frame_is_the_csv(tmp_path: Path) -> None:
    made = grid()
    made.save(tmp_path / "grid.csv")
    read = pandas.read_csv(tmp_path / "grid.csv", dtype={"layer": str, "head": str})
    pandas.testing.assert_frame_equal(read[list(made.to_pandas().columns)], made.to_pandas(), check_dtype=False)


def test_xarray_has_named_axes() -> None:
    array = grid().to_xarray()
    assert array.dims == ("layer", "head") and array.name == "Scores" and array.attrs["unit"] == "logits"
    assert array.sel(layer="1", head="1").item() == 7.0
    assert array.coords["layer_address"].values.tolist() == ["blocks.0.attn.hook_z", "blocks.1.attn.hook_z"]


@pytest.mark.parametrize("ending", ["csv", "json", "safetensors"])
def test_saves_and_loads_the_same(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"grid.{ending}"
    grid().save(file)
    again = Grid.load(file)
    assert torch.equal(again.values.nan_to_num(9), grid().values.nan_to_num(9))
    assert (again.title, again.unit, again.axes[0].labels) == ("Scores", "logits", ["0", "1"])
    grid().save(file)  # our own file may be replaced
    (tmp_path / "other.csv").write_text("not ours")
    with pytest.raises(hooked.IoError):
        grid().save(tmp_path / "other.csv")
    grid().save(tmp_path / "other.csv", overwrite="any")
    assert json.loads(grid().to_json())["values"][1] == [0.125, 7.0, 3.0]


def test_shows_itself() -> None:
    made = grid()
    assert repr(made).splitlines()[0] == "Scores (logits)"
    assert repr(made).splitlines()[2].split()[:3] == ["0", "1.000", "-2.500"]
    html = made._repr_html_()
    picture = re.search(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", html)
    assert picture and base64.b64decode(picture[1]).decode() == hooked.heat_map_svg(made)
    assert "-2.500" in html and "http" not in html.replace("http://www.w3.org", "")
    assert "<svg" in hooked.heat_map_svg(made, palette="PRGn", centre=1.0)
    assert "<svg" in hooked.line_plot_svg(made, y="linear", width=300)
    with pytest.raises(hooked.ConfigError, match="palette"):
        hooked.heat_map_svg(made, palette="rainbow")
    with pytest.raises(TypeError, match="did you mean palette"):
        hooked.heat_map_svg(made, pallete="RdBu")


def test_what_a_struct_needs_is_said() -> None:
    assert GridAxis("head", ["0"]) == GridAxis(name="head", labels=["0"])
    with pytest.raises(TypeError, match=r"\[labels\] GridAxis is not given it"):
        GridAxis("head")
    with pytest.raises(TypeError, match="given it twice"):
        GridAxis("head", ["0"], name="pos")
    with pytest.raises(TypeError, match="at most 2, got 3"):
        GridAxis("head", ["0"], [])
