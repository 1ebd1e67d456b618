"""Checkpoints whose matrices are stored as published ones are: a saved float model is rounded to numbers that the format has."""

import json
import pathlib
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from .. import number_codes
from ..case_files import generator_for

kBlock = (5, 8)  # so that blocks end beside the matrix
kLargest = 448.0  # of e4m3


def mxfp4(name: str, weight: torch.Tensor) -> tuple:
    """(stored tensors, [expert, in, out] numbers) of random codes of about the weight's size."""
    experts, columns, rows = weight.shape
    generator = generator_for(name)
    blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(122, 126, (experts, rows, columns // 32), generator=generator, dtype=torch.uint8)
    numbers = number_codes.mxfp4(blocks.numpy(), scales.numpy())
    return {f"{name}_blocks": blocks, f"{name}_scales": scales}, torch.from_numpy(np.ascontiguousarray(numbers))


def fp8(name: str, weight: torch.Tensor, ending: str, block=None, by_row=False, dtype=torch.float32) -> tuple:
    size = weight.abs().float()
    if block:
        rows, columns = (-(-n // b) for n, b in zip(weight.shape, block))
        padded = torch.zeros(rows * block[0], columns * block[1])
        padded[:weight.shape[0], :weight.shape[1]] = size
        largest = padded.reshape(rows, block[0], columns, block[1]).amax((1, 3))
    else:
        largest = size.amax(1, keepdim=True) if by_row else size.amax().reshape(1)
    factors = (largest / kLargest).to(dtype)
    wide = factors.float().numpy()
    spread = number_codes.fp8(np.full(weight.shape, 0x38, np.uint8), wide, block)  # 0x38 is 1
    codes = number_codes.to_e4m3((weight.float().numpy() / spread).clip(-kLargest, kLargest))
    numbers = number_codes.fp8(codes, wide, block)
    return {name: torch.from_numpy(codes).view(torch.float8_e4m3fn), name + ending: factors}, torch.from_numpy(numbers)


def is_linear(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 2 and "_proj" in name


def is_experts(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 3


def compressed(strategy: str) -> dict:
    weights = dict(num_bits=8, type="float", strategy=strategy, symmetric=True, dynamic=False, group_size=None,
                   block_structure=None, actorder=None, observer="minmax", observer_kwargs={})
    group = dict(weights=weights, input_activations=dict(weights, dynamic=True, strategy="token"), output_activations=None,
                 targets=["Linear"])
    return dict(quant_method="compressed-tensors", format="float-quantized", config_groups=dict(group_0=group), ignore=["lm_head"],
                kv_cache_scheme=None, global_compression_ratio=1.5, quantization_status="compressed")


# What is quantised, how, and what config.json says of it.
kFormats = {
    "mxfp4": (is_experts, mxfp4, dict(quant_method="mxfp4", modules_to_not_convert=[
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"])),
    "fp8_blocks": (is_linear, lambda name, weight: fp8(name, weight, "_scale_inv", block=kBlock),
                   dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", weight_block_size=list(kBlock))),
    "fp8_rows": (is_linear, lambda name, weight: fp8(name, weight, "_scale", by_row=True, dtype=torch.bfloat16), compressed("channel")),
    "fp8_tensor": (is_linear, lambda name, weight: fp8(name, weight, "_scale"), compressed("tensor")),
    "fbgemm": (is_linear, lambda name, weight: fp8(name, weight, "_scale", by_row=True),
               dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0, modules_to_not_convert=["lm_head"])),
}


def quantised(case, model) -> tuple:
    """(the model with weights that the format of `case.stored` has, what is stored in place of which tensors)."""
    chosen, store, config = kFormats[case.stored]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model.save_pretrained(folder)
        file = folder / "model.safetensors"
        tensors, stored = load_file(file), {}
        for name in sorted(tensors):
            if chosen(name, tensors[name]):
                stored[name], numbers = store(name, tensors[name])
                tensors[name] = numbers.to(tensors[name].dtype)
        assert stored, case.name
        save_file(tensors, file, metadata={"format": "pt"})
        again = type(model).from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                            experts_implementation="eager")
    again.eval()
    return again, stored


def store(case, stored: dict, folder: pathlib.Path) -> None:
    """Puts what is stored into a saved folder, and into config.json how."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name, instead in stored.items():
        del tensors[name]
        tensors |= instead
    save_file({name: value.contiguous() for name, value in sorted(tensors.items())}, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = kFormats[case.stored][2]
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
