"""What a golden case is, and how it is written."""

import dataclasses
import functools
import json
import pathlib
import re
import shutil
import sys
import zlib
from collections.abc import Callable

import torch
from safetensors.torch import save_file

from . import drawn, padding
from .projections import kGoldens, kWhole, save_expected

kRoot = kGoldens.parents[1]
kInputs = ("tokens", "attention_mask", "token_type_ids", "decoder_tokens", "decoder_attention_mask")


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes one case. Those that are not `committed` are compared by hand, never written."""

    case: str
    make: Callable
    committed: bool = True


@dataclasses.dataclass
class Golden:
    """One case, ready to be written.

    `config` and `weights` are what is written as config.json and model.safetensors, unless `write_model` writes another
    kind of model folder; `native_config` describes a native model, or one that TransformerLens is asked about. Outputs are
    float64 (integer points int64) by activation name, with `tokens` [batch, pos], and perhaps other inputs, `logits`
    [batch, pos, vocab] and a `greedy` continuation [1, pos]. `exceptions` are the kinds (exceptions.py) of points of the
    model that `outputs` lacks; `processed` has all of them. Rows of padding mean nothing.
    """

    case: str
    oracle: str
    outputs: dict
    family: str = "hooked_transformer"  # by which the folder is read
    native_config: dict | None = None
    config: dict | None = None
    weights: dict | None = None
    write_model: Callable | None = None
    processed: dict | None = None
    processing: list = dataclasses.field(default_factory=list)
    processed_skipped: str = ""  # why steps (or all of them) have no oracle
    gradients: dict | None = None
    gradient_metric: dict | None = None
    exceptions: tuple = ()
    agrees_with: str = ""  # the other oracle that was asked and gave the same numbers


def generator_for(case: str) -> torch.Generator:
    """A generator seeded by the case's name, so that adding a case changes no other."""
    return torch.Generator().manual_seed(zlib.crc32(case.encode()))


def random_tokens(case: str, d_vocab: int, length: int) -> torch.Tensor:
    """[2, length] token ids of all the vocabulary."""
    return torch.randint(0, d_vocab, (2, length), generator=generator_for(case + "/tokens"))


def check(outputs: dict, where: str) -> None:
    """Numbers must be finite; only masked scores may be -inf."""
    for name, value in outputs.items():
        if not value.is_floating_point():
            continue
        assert value.dtype == torch.float64, f"{where}: {name} is {value.dtype}"
        assert not value.isnan().any(), f"{where}: {name} has NaN"
        infinite = value.isinf()
        if infinite.any():
            assert name.endswith("hook_attn_scores"), f"{where}: {name} has infinities"
            assert (value[infinite] < 0).all(), f"{where}: {name} has +inf"


def _contiguous(tensors: dict) -> dict:
    return {name: t.detach().clone().contiguous() for name, t in sorted(tensors.items())}


def write_folder(folder: pathlib.Path, golden: Golden) -> None:
    """The case's model folder."""
    folder.mkdir(parents=True)
    if golden.write_model:
        golden.write_model(folder)
        return
    (folder / "config.json").write_text(json.dumps(golden.config, indent=2) + "\n")
    save_file(_contiguous(golden.weights), folder / "model.safetensors")


def without_blanks(file: pathlib.Path) -> None:
    """Writes a JSON file again without the white space between its tokens, which in hundreds of them adds up."""
    if not file.exists():
        return
    parts = re.split(r'("(?:[^"\\]|\\.)*")', file.read_text())
    file.write_text("".join(part if i % 2 else re.sub(r"\s+", "", part) for i, part in enumerate(parts)) + "\n")


def write_case(golden: Golden) -> dict:
    """Writes a case's folder and returns its row of index.json."""
    folder = kGoldens / "cases" / golden.case
    shutil.rmtree(folder, ignore_errors=True)
    write_folder(folder, golden)
    for file, outputs in (("golden", golden.outputs), ("golden_processed", golden.processed),
                          ("gradients", golden.gradients)):
        if outputs:
            check(outputs, f"{golden.case}/{file}")
            path = folder / f"{file}.safetensors"
            if golden.case in kWhole:
                save_file(_contiguous(outputs), path)
            else:
                save_expected(path, outputs, functools.partial(padding.of_activation, golden.outputs))
    for file in folder.rglob("*"):
        if file.is_file():
            file.chmod(0o644)
    without_blanks(folder / "config.json")
    weights, of_list = folder / "model.safetensors", f"cases/{golden.case}"
    if weights.exists() and drawn.put_on_list(of_list, weights):
        weights.unlink()
    else:
        print(f"{golden.case}: the weights stay a file", file=sys.stderr)
    row = {"case": golden.case, "family": golden.family, "oracle": golden.oracle}
    if golden.agrees_with:
        row["agrees_with"] = golden.agrees_with
    if golden.processed is not None:
        row["processing"] = golden.processing
    if golden.processed_skipped:
        row["processed_skipped"] = golden.processed_skipped
    if golden.gradients:
        row["gradients"] = golden.gradient_metric
    row["exceptions"] = list(golden.exceptions)
    return row
