"""What other Python packages have of a Grid. pandas and xarray are imported where they are used."""

import base64
import html
import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    import pandas
    import xarray

    from hooked import Grid


def numpy(grid: "Grid") -> "numpy.ndarray":
    return grid.values.numpy()


def array(grid: "Grid", dtype: Any = None, copy: bool | None = None) -> "numpy.ndarray":
    import numpy as np

    values = grid.values.numpy()
    return values if dtype is None and not copy else np.array(values, dtype=dtype)


def _addresses(axis: Any) -> list[str | None]:
    return [None if place is None else str(place) for place in axis.places]


def to_pandas(grid: "Grid", wide: bool = False) -> "pandas.DataFrame":
    import pandas as pd

    frame = _wide(grid, pd) if wide else _long(grid, pd)
    frame.attrs.update(title=grid.title, unit=grid.unit)
    return frame


def _long(grid: "Grid", pd: Any) -> "pandas.DataFrame":
    axes = grid.axes
    columns: dict[str, Any] = {}
    places = list(itertools.product(*(range(len(axis.labels)) for axis in axes)))
    for number, axis in enumerate(axes):
        at = [place[number] for place in places]
        columns[axis.name] = [axis.labels[i] for i in at]
        if addresses := _addresses(axis):
            columns[f"{axis.name} address"] = [addresses[i] for i in at]
    columns["value"] = grid.values.flatten().numpy()
    if grid.interval is None:
        return pd.DataFrame(columns)
    columns.update(low=grid.interval.low.flatten().numpy(), high=grid.interval.high.flatten().numpy())
    frame = pd.DataFrame(columns)
    frame.attrs["interval"] = grid.interval.about
    return frame


def _wide(grid: "Grid", pd: Any) -> "pandas.DataFrame":
    axes = grid.axes
    if not axes:
        return pd.DataFrame({"value": [grid.at([])]})
    rows, columns = (axes, None) if len(axes) == 1 else (axes[:-1], axes[-1])
    if len(rows) == 1:
        index = pd.Index(rows[0].labels, name=rows[0].name)
    else:
        index = pd.MultiIndex.from_product([axis.labels for axis in rows], names=[axis.name for axis in rows])
    header = ["value"] if columns is None else pd.Index(columns.labels, name=columns.name)
    values = grid.values.numpy().reshape(len(index), len(header)).copy()  # a frame may be written to
    return pd.DataFrame(values, index=index, columns=header)


def to_xarray(grid: "Grid") -> "xarray.DataArray":
    import xarray as xr

    coordinates: dict[str, Any] = {}
    for axis in grid.axes:
        coordinates[axis.name] = axis.labels
        if addresses := _addresses(axis):
            coordinates[f"{axis.name}_address"] = (axis.name, addresses)
    return xr.DataArray(
        grid.values.numpy().copy(),
        dims=[axis.name for axis in grid.axes],
        coords=coordinates,
        name=grid.title,
        attrs={"title": grid.title, "unit": grid.unit},
    )


def repr_html(grid: "Grid") -> str:
    from hooked import heat_map_svg

    table = f"<pre>{html.escape(repr(grid))}</pre>"
    if not grid.axes or not grid.values.numel():
        return table
    # As an image, so that the styles of one picture do not reach another.
    svg = base64.b64encode(heat_map_svg(grid).encode()).decode()
    image = f'<img alt="{html.escape(grid.title)}" src="data:image/svg+xml;base64,{svg}">'
    return f"<div>{image}<details><summary>numbers</summary>{table}</details></div>"
