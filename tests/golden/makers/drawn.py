"""Weights that nobody stores: each number is drawn from the names of its folder and its tensor, and from its place.

`tensors.txt` lists, below the name of each model folder (`cases/llama`), its tensors: name, dtype, shape (`-` of one number alone) and how they are drawn.
`{0-3}` in a name stands for each of these numbers. tests/support/drawn.cc draws the same, to the last bit, and writes the model folders that
the tests load.

- A whole number k: uniform in (-2^k, 2^k), odd multiples of 2^(k-b), so that no number is 0. b is 53 for F64, 8 for BF16, else 11:
  what half precision holds, so that files of other formats can have the same numbers.
- `norm`: in [0.5, 1.5) in steps of 1/64, so that 1 + w and w - 1 are exact.
- `=number`: that number everywhere.
- `@name`: the numbers of the tensor of that name.

A model folder all of whose tensors are draws is listed, and its model.safetensors is not kept.
"""

import atexit
import functools
import itertools
import math
import pathlib
import re
import shutil
import tempfile

import numpy
import torch
from safetensors.torch import load_file, save_file

from .projections import hash_of, kGoldens, splitmix64

kList = kGoldens / "tensors.txt"
kDtypes = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
kBits = {"F64": 53, "BF16": 8, "F32": 11, "F16": 11}
# What a checkpoint holds in addition to what was trained.
kFixed = ("act_fn.beta", "act_fn.eps", "input_max", "input_min", "output_max", "output_min")


def how(name: str, shape) -> str:
    """How a tensor is drawn: so that it shows if it is left out, and activations are about 1."""
    shape, leaf = tuple(shape), name.rsplit(".", 1)[-1]
    if len(shape) <= 1 and leaf in ("w", "weight", "layer_scalar"):
        return "norm"
    if name.endswith("router.scale"):  # which Gemma 4 divides by sqrt(d_model)
        return "2"
    if len(shape) <= 1 or leaf in ("b_Q", "b_K", "b_V", "_b_K", "_b_V"):
        return "-1"
    if leaf in ("W_E", "W_pos") or any(part in name for part in ("embed", "wte", "wpe")) and leaf == "weight":
        return "1"
    return str(round(math.log2(2.25 / (shape[-2] if len(shape) > 2 else max(shape)) ** 0.5)))


def draw(folder: str, name: str, shape, dtype: str = "F32", by: str | None = None) -> torch.Tensor:
    """The tensor of this name in a model folder, given relative to tests/golden."""
    by, shape = by or how(name, shape), tuple(shape)
    count = math.prod(shape)
    if by.startswith("="):
        numbers = numpy.full(count, float(by[1:]))
    else:
        counter = numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(hash_of(f"{folder}/{name}"))
        bits = 6 if by == "norm" else kBits[dtype]
        drawn = (splitmix64(counter) >> numpy.uint64(64 - bits)).astype(numpy.int64)
        numbers = (drawn + 32) / 64 if by == "norm" else (2 * drawn + 1 - 2**bits) * 2.0 ** (int(by) - bits)
    if dtype in ("F32", "BF16"):
        numbers = numbers.astype(numpy.float32)  # by NumPy: float64() widens tensors that torch creates
    value = torch.from_numpy(numbers.reshape(shape))
    return value.to(next(d for d, key in kDtypes.items() if key == dtype)) if dtype in ("F16", "BF16") else value


def redraw(folder: str, file: pathlib.Path) -> None:
    """Draws every tensor of a safetensors file anew."""
    tensors = {name: value if name.endswith(kFixed) or not value.is_floating_point() else draw(folder, name, value.shape)
               for name, value in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})


def fill(folder: str, model: torch.nn.Module, dtype: str = "F32") -> None:
    """Draws every parameter of a model whose checkpoint has the same names."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(draw(folder, name, parameter.shape, dtype))
            parameter.requires_grad_(False)


def rows_of(folder: str, file: pathlib.Path) -> list | None:
    """What the list has of a safetensors file; None if some tensor was not drawn."""
    rows, tensors = [], dict(sorted(load_file(file).items()))
    for name, value in tensors.items():
        if (dtype := kDtypes.get(value.dtype)) is None:
            return None

        def is_drawn(of: str, by: str) -> bool:
            return torch.equal(draw(folder, of, value.shape, dtype, by), value)

        if is_drawn(name, how(name, value.shape)):
            by = how(name, value.shape)
        elif value.unique().numel() == 1:
            by = f"={value.flatten()[0].item()!r}"
        else:
            by = next((f"@{other}" for other, same in tensors.items()
                       if same.shape == value.shape and is_drawn(other, how(other, value.shape))), None)
        if by is None:
            return None
        rows.append((name, dtype, ",".join(map(str, value.shape)) or "-", by))
    return rows


def _split(name: str) -> list:
    """Texts and numbers in turn, of a name whose numbers are parts of their own."""
    return re.split(r"(?<![^.])(\d+)(?![^.])", name)


def _folded(rows: list) -> list:
    """Lines for rows: those that differ in numbers of their names alone become one, if they have every combination."""
    alike = {}
    for name, *rest in rows:
        parts = _split(name)
        alike.setdefault((tuple(parts[::2]), *rest), []).append(tuple(map(int, parts[1::2])))
    lines = []
    for (texts, *rest), numbers in alike.items():
        ranges = [(min(column), max(column)) for column in zip(*numbers)]
        whole = math.prod(last - first + 1 for first, last in ranges)
        groups = [numbers] if whole == len(numbers) else [[one] for one in numbers]
        for group in groups:
            name = texts[0]
            for text, column in zip(texts[1:], zip(*group)):
                first, last = min(column), max(column)
                name += (f"{{{first}-{last}}}" if last > first else str(first)) + text
            lines.append(" ".join((name, *rest)))
    return lines


def _unfolded(line: str) -> list:
    name, *rest = line.split(" ")
    parts = re.split(r"\{(\d+)-(\d+)\}", name)
    ranges = [range(int(a), int(b) + 1) for a, b in zip(parts[1::3], parts[2::3])]
    return [("".join(itertools.chain(*zip(parts[::3], [*map(str, numbers), ""]))), *rest) for numbers in itertools.product(*ranges)]


def read_list() -> dict:
    """The lines of the list by folder."""
    folders = {}
    for line in kList.read_text().splitlines() if kList.exists() else []:
        if " " in line:
            lines.append(line)
        else:
            lines = folders.setdefault(line, [])
    return folders


def put_on_list(folder: str, path: pathlib.Path) -> bool:
    """Lists a folder's safetensors file in the place of what the list has of it, and says whether it could."""
    folders, rows = read_list(), rows_of(folder, path)
    folders.pop(folder, None)
    if rows is not None:
        folders[folder] = _folded(rows)
        assert sorted(row for line in folders[folder] for row in _unfolded(line)) == sorted(rows), folder
    kList.write_text("".join("\n".join([name, *lines]) + "\n" for name, lines in sorted(folders.items())))
    return rows is not None


def tensors_of(folder: str) -> dict | None:
    """The tensors of a listed folder by name."""
    if (lines := read_list().get(folder)) is None:
        return None
    rows = {row[0]: row for line in lines for row in _unfolded(line)}
    tensors = {}
    for name, dtype, shape, by in rows.values():
        of, by = (by[1:], rows[by[1:]][3]) if by.startswith("@") else (name, by)
        tensors[name] = draw(folder, of, [] if shape == "-" else map(int, shape.split(",")), dtype, by)
    return tensors


@functools.cache
def _scratch() -> pathlib.Path:
    scratch = pathlib.Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, scratch)
    return scratch


def model_folder(folder: str) -> pathlib.Path:
    """A model folder with its weights, where a library can load it."""
    made = _scratch() / folder
    if not made.exists():
        shutil.copytree(kGoldens / folder, made)
        if (tensors := tensors_of(folder)) is not None:
            save_file(tensors, made / "model.safetensors", metadata={"format": "pt"})
    return made
