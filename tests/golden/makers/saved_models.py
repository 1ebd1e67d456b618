"""The cases' folders as transformers loads them: what a user of the checkpoint gets, in any dtype and version."""

import contextlib
import fnmatch
import json

import torch
import transformers
from transformers.utils import logging
from safetensors import safe_open
from safetensors.torch import load_file

from .case_files import kGoldens, kInputs
from .drawn import model_folder
from .float64 import float64

logging.disable_progress_bar()


# InternLM 3's names for keys of Llama's config.
kLlamaKeys = {"qkv_bias": "attention_bias", "bias": "mlp_bias"}


def _rows() -> dict:
    """The rows of the index by case."""
    return {row["case"]: row for row in json.loads((kGoldens / "index.json").read_text())["cases"]}


def cases(globs: list) -> list:
    """The names of the cases that transformers recorded from a checkpoint of a family, with logits."""
    names = []
    for case, row in _rows().items():
        if not row["oracle"].startswith("transformers") or row["family"] in ("hooked_transformer", "transformer_lens"):
            continue
        if globs and not any(fnmatch.fnmatch(case, glob) for glob in globs):
            continue
        if logits_line(case) is not None:
            names.append(case)
    return names


def golden_file(case: str):
    return kGoldens / "cases" / case / "golden.safetensors"


def logits_line(case: str) -> tuple | None:
    """The recorded projection of the logits (projections.py): its line and its row; or the numbers themselves; or None."""
    with safe_open(golden_file(case), "pt") as file:
        if "logits" in file.keys():
            return None, file.get_tensor("logits")
        lines = (file.metadata() or {}).get("projected", "").split("\n")
        for i, line in enumerate(lines):
            if line.startswith("logits "):
                return line, file.get_tensor("projections")[i].tolist()
    return None


def inputs_of(case: str) -> dict:
    """The recorded inputs by hooked's names."""
    return {name: value for name, value in load_file(golden_file(case)).items() if name in kInputs}


def load(case: str, dtype: torch.dtype) -> torch.nn.Module:
    """The case's model, in float64 computing in float64 throughout (call and use it inside `computing_in(dtype)`)."""
    folder = model_folder(f"cases/{case}")
    keys = json.loads((folder / "config.json").read_text())
    (architecture,) = keys["architectures"]
    model_class = getattr(transformers, architecture)
    config = {}
    if model_class.config_class.model_type != keys["model_type"]:  # a family without a class of its own: Llama's
        config = {"config": model_class.config_class.from_dict({kLlamaKeys.get(key, key): keys[key] for key in keys})}
    attention = "sdpa" if "eager_attention" in _rows()[case]["exceptions"] else "eager"
    return model_class.from_pretrained(folder, dtype=dtype, attn_implementation=attention, experts_implementation="eager",
                                       **config).eval()


def computing_in(dtype: torch.dtype):
    """What a model of this dtype is loaded and run inside."""
    return float64() if dtype is torch.float64 else contextlib.nullcontext()


def logits_of(model: torch.nn.Module, inputs: dict) -> torch.Tensor:
    """[batch, pos, vocab], with the positions that generation counts by a mask with padding on the left."""
    keys = {"tokens": "input_ids", "decoder_tokens": "decoder_input_ids"}
    arguments = {keys.get(name, name): value for name, value in inputs.items()}
    mask = inputs.get("attention_mask")
    if mask is not None:
        arguments["attention_mask"] = mask = mask.long()
        if (mask[:, 0] == 0).any() and "decoder_tokens" not in inputs:
            arguments["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        outputs = model(**arguments)
    return outputs.logits if hasattr(outputs, "logits") else outputs.prediction_logits
