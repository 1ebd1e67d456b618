"""Checkpoints whose matrices are stored as published ones are: a saved float model is rounded to numbers that the format has."""

import json
import pathlib
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from .. import number_codes, packed_numbers
from ..case_files import generator_for

kBlock = (5, 8)  # so that blocks extend beyond the matrix
kLargest = 448.0  # of e4m3


def mxfp4(name: str, weight: torch.Tensor) -> tuple:
    """(stored tensors, [expert, in, out] numbers) of random codes of about the weight's size."""
    experts, columns, rows = weight.shape
    generator = generator_for(name)
    blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(122, 126, (experts, rows, columns // 32), generator=generator, dtype=torch.uint8)
    numbers = number_codes.mxfp4(blocks.numpy(), scales.numpy())
    return {f"{name}_blocks": blocks, f"{name}_scales": scales}, torch.from_numpy(np.ascontiguousarray(numbers))


def fp8(name: str, weight: torch.Tensor, ending: str, block=None, by_row=False, dtype=torch.float32, rounded=False) -> tuple:
    """`rounded`: products are rounded to the factors' dtype, as compressed-tensors has it."""
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
    numbers = torch.from_numpy(number_codes.fp8(codes, wide, block))
    if rounded:
        numbers = numbers.to(dtype).float()
    return {name: torch.from_numpy(codes).view(torch.float8_e4m3fn), name + ending: factors}, numbers


kGroup = 16


def single(numbers: torch.Tensor) -> torch.Tensor:
    """In float32, also where float64() widens what torch is asked for."""
    return torch.from_numpy(numbers.numpy().astype(np.float32))


def random_parts(name: str, bits: int, codes_shape, groups: int, factors_shape, dtype) -> tuple:
    """(codes, zero points, factors) at random, of weights of about the usual size."""
    generator = generator_for(name)
    codes = torch.randint(0, 2**bits, codes_shape, generator=generator).numpy()
    zeros = torch.randint(2 ** (bits - 1) - 1, 2 ** (bits - 1) + 2, factors_shape, generator=generator).numpy()
    factors = ((torch.rand(factors_shape, generator=generator) + 0.5) / 2**bits).to(dtype)
    return codes, zeros, factors


def gptq(name: str, weight: torch.Tensor) -> tuple:
    """Four bits, rows in any order, zero points less one."""
    (rows, columns), stem = weight.shape, name.removesuffix(".weight")
    codes, zeros, factors = random_parts(name, 4, (columns, rows), kGroup, (columns // kGroup, rows), torch.half)
    order = torch.randperm(columns, generator=generator_for(name + "/order")) // kGroup
    parts = dict(qweight=torch.from_numpy(packed_numbers.pack_down(codes, 4)),
                 qzeros=torch.from_numpy(packed_numbers.pack_along(zeros - 1, 4)), scales=factors, g_idx=order.int())
    return {f"{stem}.{key}": value for key, value in parts.items()}, packed_numbers.gptq(parts, 4, 1)


def awq(name: str, weight: torch.Tensor) -> tuple:
    (rows, columns), stem = weight.shape, name.removesuffix(".weight")
    codes, zeros, factors = random_parts(name, 4, (columns, rows), kGroup, (columns // kGroup, rows), torch.half)
    parts = dict(qweight=torch.from_numpy(packed_numbers.pack_awq(codes)), qzeros=torch.from_numpy(packed_numbers.pack_awq(zeros)),
                 scales=factors)
    return {f"{stem}.{key}": value for key, value in parts.items()}, packed_numbers.awq(parts, kGroup)


def packed(name: str, weight: torch.Tensor) -> tuple:
    """compressed-tensors' four bits with zero points."""
    rows, columns = weight.shape
    codes, zeros, factors = random_parts(name, 4, (rows, columns), kGroup, (rows, columns // kGroup), torch.bfloat16)
    stored = {"_packed": torch.from_numpy(packed_numbers.pack_along(codes, 4)),
              "_zero_point": torch.from_numpy(packed_numbers.pack_down(zeros, 4)), "_scale": factors,
              "_shape": torch.tensor([rows, columns])}
    numbers = packed_numbers.scaled(codes, zeros.repeat(kGroup, 1), factors.repeat_interleave(kGroup, 1))
    return {name + ending: value for ending, value in stored.items()}, numbers


def integers(name: str, weight: torch.Tensor) -> tuple:
    """compressed-tensors' eight bits, a factor for each row."""
    rows, columns = weight.shape
    codes, _, factors = random_parts(name, 8, (rows, columns), kGroup, (rows, 1), torch.bfloat16)
    codes = (codes - 128).astype(np.int8)
    numbers = packed_numbers.scaled(codes.astype(np.int64), np.int64(0), factors.expand(rows, columns))
    return {name: torch.from_numpy(codes), name + "_scale": factors}, numbers


def nested_nf4(name: str, weight: torch.Tensor) -> tuple:
    """bitsandbytes' nf4, whose factors are stored in a byte each."""
    generator, count = generator_for(name), weight.numel()
    stretches, stretch, nested = -(-count // 64), 64, 256
    codes = torch.randint(0, 256, ((count + 1) // 2, 1), generator=generator, dtype=torch.uint8)
    places = torch.randint(0, 256, (stretches,), generator=generator, dtype=torch.uint8)
    table = torch.from_numpy(np.linspace(-1, 1, 256, dtype=np.float32))
    outer = single(torch.rand(-(-stretches // nested), generator=generator) * 0.3)
    offset = 0.4
    factors = packed_numbers.nested_factors(places, outer, table, nested, offset)
    numbers = packed_numbers.levels(codes, factors, packed_numbers.kNf4, stretch, weight.shape, torch.bfloat16)
    state = dict(quant_type="nf4", blocksize=stretch, dtype="bfloat16", shape=list(weight.shape), nested_blocksize=nested,
                 nested_dtype="float32", nested_offset=offset)
    stored = {"": codes, ".absmax": places, ".quant_map": torch.tensor(packed_numbers.kNf4), ".nested_absmax": outer,
              ".nested_quant_map": table,
              ".quant_state.bitsandbytes__nf4": torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)}
    return {name + ending: value for ending, value in stored.items()}, numbers


def parts_of_127(name: str, weight: torch.Tensor) -> tuple:
    """bitsandbytes' int8, of a matrix [in, out] as GPT-2 has it: stored [out, in]."""
    (columns, rows), stem = weight.shape, name.removesuffix(".weight")
    generator = generator_for(name)
    codes = torch.randint(-127, 128, (rows, columns), generator=generator, dtype=torch.int8)
    maxima = single(torch.rand(rows, generator=generator) + 0.2)
    numbers = torch.from_numpy(codes.numpy().astype(np.float32) * maxima.numpy()[:, None] * packed_numbers.kPartOf127)
    return {name: codes, f"{stem}.SCB": maxima, f"{stem}.weight_format": torch.tensor(0, dtype=torch.uint8)}, numbers.T


def is_linear(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 2 and "_proj" in name


def is_conv1d(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 2 and ".c_" in name


def is_experts(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 3


def compressed(strategy: str, form: str = "float-quantized", **more) -> dict:
    weights = dict(dict(num_bits=8, type="float", strategy=strategy, symmetric=True, dynamic=False, group_size=None,
                        block_structure=None, actorder=None, observer="minmax", observer_kwargs={}), **more)
    group = dict(weights=weights, input_activations=dict(weights, dynamic=True, strategy="token"), output_activations=None,
                 targets=["Linear"])
    return dict(quant_method="compressed-tensors", format=form, config_groups=dict(group_0=group), ignore=["lm_head"],
                kv_cache_scheme=None, global_compression_ratio=1.5, quantization_status="compressed")


def bitsandbytes(bits: int) -> dict:
    return dict(quant_method="bitsandbytes", load_in_4bit=bits == 4, load_in_8bit=bits == 8, _load_in_4bit=bits == 4,
                _load_in_8bit=bits == 8, bnb_4bit_compute_dtype="bfloat16", bnb_4bit_quant_storage="uint8",
                bnb_4bit_quant_type="nf4" if bits == 4 else "fp4", bnb_4bit_use_double_quant=bits == 4,
                llm_int8_enable_fp32_cpu_offload=False, llm_int8_has_fp16_weight=False, llm_int8_skip_modules=None,
                llm_int8_threshold=6.0)


# What is quantised, how, and what config.json says about it.
kFormats = {
    "mxfp4": (is_experts, mxfp4, dict(quant_method="mxfp4", modules_to_not_convert=[
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"])),
    "fp8_blocks": (is_linear, lambda name, weight: fp8(name, weight, "_scale_inv", block=kBlock),
                   dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", weight_block_size=list(kBlock))),
    "fp8_rows": (is_linear, lambda name, weight: fp8(name, weight, "_scale", by_row=True, dtype=torch.bfloat16, rounded=True),
                 compressed("channel")),
    "fp8_tensor": (is_linear, lambda name, weight: fp8(name, weight, "_scale"), compressed("tensor")),
    "gptq": (is_linear, gptq, dict(quant_method="gptq", bits=4, group_size=kGroup, desc_act=True, sym=False, damp_percent=0.1,
                                   true_sequential=True, model_name_or_path=None, model_file_base_name="model")),
    "awq": (is_linear, awq, dict(quant_method="awq", bits=4, group_size=kGroup, zero_point=True, version="gemm",
                                 modules_to_not_convert=None)),
    "packed": (is_linear, packed, compressed("group", "pack-quantized", num_bits=4, type="int", symmetric=False, group_size=kGroup)),
    "integers": (is_linear, integers, compressed("channel", "int-quantized", type="int")),
    "nf4": (is_linear, nested_nf4, bitsandbytes(4)),
    "int8": (is_conv1d, parts_of_127, bitsandbytes(8)),
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
                tensors[name] = numbers.to(tensors[name].dtype).contiguous()
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
