"""Records weights that the formats' own packages quantise and pack, and the numbers that the packages make of them again, in
tests/golden/quantised_weights.safetensors: bitsandbytes, compressed-tensors, AutoGPTQ and AutoAWQ (requirements_quantised.txt).

`<case>.expected` is the package's dequantisation on the CPU; the decoders of packed_numbers.py must agree with it to the last bit, and
its packers with the package's. The file's metadata has what config.json would say of each case. The test QuantisedSource reads it.
"""

import importlib
import importlib.util
import json
import pathlib
import sys
import types

import numpy as np
import torch
from safetensors.torch import save_file

from . import packed_numbers
from .case_files import generator_for, kGoldens


def module_of(package: str, path: str):
    """One file of a package that cannot be imported whole: its __init__ wants kernels, or transformers of its own time."""
    if package not in sys.modules:
        root = pathlib.Path(importlib.util.find_spec(package).origin).parent
        for folder in (root, *(root / parent for parent in reversed(pathlib.Path(path).parents) if parent.name), root / "utils"):
            name = ".".join((package, *folder.relative_to(root).parts))
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(folder)]
    return importlib.import_module(f"{package}.{path.removesuffix('.py').replace('/', '.')}")


def same_bits(first: torch.Tensor, second: torch.Tensor) -> None:
    first, second = first.float().contiguous(), second.float().contiguous()
    assert first.shape == second.shape and torch.equal(first.view(torch.int32), second.view(torch.int32))


def random(case: str, *shape) -> torch.Tensor:
    return torch.randn(shape, generator=generator_for(case))


def linear_of(weight: torch.Tensor):
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    linear.weight.data = weight
    return linear


def group_factors(weight: torch.Tensor, order: torch.Tensor, groups: int, bits: int) -> tuple:
    """(factors, zero points), each [group, out], that asymmetric quantisation of weight [out, in] takes."""
    factors, zeros = [], []
    for group in range(groups):
        part = weight[:, order == group]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        factor = ((high - low) / (2**bits - 1)).half().float()
        factors.append(factor)
        # AutoGPTQ cannot store a zero point of 0 (minus one), nor read its largest one.
        zeros.append((-low / factor).round().clamp(1, 2**bits - 1))
    return torch.stack(factors), torch.stack(zeros)


def gptq(case: str, bits: int, group: int, version: int = 1, shuffled: bool = False) -> tuple:
    quant_linear = module_of("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py").QuantLinear
    n_out, n_in = 32, 96
    weight = random(case, n_out, n_in)
    groups = 1 if group == -1 else n_in // group
    order = torch.arange(n_in) // (n_in if group == -1 else group)
    if shuffled:
        order = order[torch.randperm(n_in, generator=generator_for(case + "/order"))]
    factors, zeros = group_factors(weight, order, groups, bits)
    module = quant_linear(bits, group, n_in, n_out, False)
    module.pack(linear_of(weight.half()), factors.T.contiguous(), zeros.T.contiguous(), order.int())
    expected = module(torch.eye(n_in, dtype=torch.half)).T  # each sum has one term
    tensors = {name: getattr(module, name) for name in ("qweight", "qzeros", "scales", "g_idx")}
    tensors["g_idx"] = tensors["g_idx"].int()
    # Version 2 is the same with zero points as they are.
    if version == 2:
        tensors["qzeros"] = torch.from_numpy(packed_numbers.pack_along(zeros.numpy(), bits))
    same_bits(packed_numbers.gptq(tensors, bits, version), expected)
    codes = packed_numbers.unpack_down(tensors["qweight"].numpy(), bits, n_in)
    assert np.array_equal(packed_numbers.pack_down(codes, bits), tensors["qweight"].numpy())
    config = dict(quant_method="gptq", bits=bits, group_size=group, desc_act=shuffled, sym=False,
                  checkpoint_format="gptq" if version == 1 else "gptq_v2")
    return tensors, expected, config


def awq(case: str, group: int) -> tuple:
    gemm = module_of("awq", "modules/linear/gemm.py")
    n_out, n_in = 32, 96
    weight = random(case, n_out, n_in)
    size = n_in if group == -1 else group
    factors, zeros = group_factors(weight, torch.arange(n_in) // size, n_in // size, 4)
    module = gemm.WQLinear_GEMM.from_linear(linear_of(weight), 4, size, scales=factors, zeros=zeros)
    tensors = {name: getattr(module, name) for name in ("qweight", "qzeros", "scales")}
    expected = gemm.dequantize_gemm(*tensors.values(), 4, size).T
    same_bits(packed_numbers.awq(tensors, size), expected)
    codes = packed_numbers.unpack_awq(tensors["qweight"].numpy())
    assert np.array_equal(packed_numbers.pack_awq(codes), tensors["qweight"].numpy())
    return tensors, expected, dict(quant_method="awq", bits=4, group_size=group, zero_point=True, version="gemm")


def compressed(case: str, form: str, dtype=torch.bfloat16, shape=(24, 64), **arguments) -> tuple:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    weight = random(case, *shape).to(dtype)
    group = arguments.get("group_size") or shape[1]
    parts = weight.reshape(shape[0], -1, group) if args.strategy == "group" else weight.reshape(shape[0], 1, -1)
    low, high = parts.amin(-1), parts.amax(-1)
    if args.strategy == "tensor":
        low, high = low.amin().reshape(1), high.amax().reshape(1)
    scale, zero_point = calculate_qparams(low, high, args)
    state = dict(weight=weight, weight_scale=scale.to(dtype), weight_zero_point=zero_point)
    compressor = BaseCompressor.get_value_from_registry(form)
    stored = compressor.compress(state, scheme)
    expected = compressor.decompress(dict(stored), scheme)["weight"]
    if form == "pack-quantized" and args.symmetric:
        codes = packed_numbers.unpack_along(stored["weight_packed"].numpy(), args.num_bits, shape[1])
        spread = stored["weight_scale"].repeat_interleave(shape[1] // scale.shape[1], 1)
        same_bits(packed_numbers.scaled(codes, np.int64(2 ** (args.num_bits - 1)), spread), expected)
        assert np.array_equal(packed_numbers.pack_along(codes, args.num_bits), stored["weight_packed"].numpy())
    config = dict(quant_method="compressed-tensors", format=form, quantization_status="compressed",
                  config_groups=dict(group_0=dict(targets=["Linear"], weights=json.loads(args.model_dump_json()))))
    return stored, expected, config


def four_bits(case: str, kind: str, shape, nested: bool, dtype: torch.dtype, blocksize: int = 64) -> tuple:
    from bitsandbytes import functional

    weight = random(case, *shape).to(dtype)
    codes, state = functional.quantize_4bit(weight, blocksize=blocksize, compress_statistics=nested, quant_type=kind)
    stored = {"weight": codes} | {f"weight.{name}": value for name, value in state.as_dict(packed=True).items()}
    expected = functional.dequantize_4bit(codes, state)
    factors = state.absmax
    if nested:
        factors = packed_numbers.nested_factors(state.absmax, state.state2.absmax, state.state2.code, state.state2.blocksize,
                                                state.offset.item())
    table = packed_numbers.kNf4 if kind == "nf4" else packed_numbers.kFp4
    assert np.array_equal(table, state.code.numpy())
    same_bits(packed_numbers.levels(codes, factors, table, blocksize, shape, dtype), expected)
    config = dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, bnb_4bit_quant_type=kind,
                  bnb_4bit_use_double_quant=nested, bnb_4bit_compute_dtype="bfloat16", bnb_4bit_quant_storage="uint8",
                  llm_int8_threshold=6.0, llm_int8_has_fp16_weight=False, llm_int8_skip_modules=None)
    return stored, expected, config


def eight_bits(case: str) -> tuple:
    from bitsandbytes import functional

    codes, row_maxima, _ = functional.int8_vectorwise_quant(random(case, 24, 40).half())
    expected = functional.int8_vectorwise_dequant(codes, row_maxima)
    same_bits(codes.float() * row_maxima[:, None] * torch.tensor(packed_numbers.kPartOf127), expected)
    stored = dict(weight=codes, SCB=row_maxima, weight_format=torch.tensor(0, dtype=torch.uint8))
    return stored, expected, dict(quant_method="bitsandbytes", load_in_4bit=False, load_in_8bit=True, llm_int8_threshold=6.0)


def main(_arguments: list) -> None:
    half, brain = torch.float16, torch.bfloat16
    group = dict(num_bits=4, type="int", strategy="group", group_size=32)
    channel = dict(type="int", strategy="channel")
    cases = {f"gptq{bits}": lambda case, bits=bits: gptq(case, bits, 32) for bits in (2, 3, 4, 8)} | {
        "gptq4_order": lambda case: gptq(case, 4, 16, shuffled=True),
        "gptq4_v2": lambda case: gptq(case, 4, 32, version=2),
        "gptq3_whole": lambda case: gptq(case, 3, -1),
        "awq": lambda case: awq(case, 32),
        "awq_whole": lambda case: awq(case, -1),
        "packed4": lambda case: compressed(case, "pack-quantized", **group),
        "packed4_zeros": lambda case: compressed(case, "pack-quantized", symmetric=False, **group),
        "packed4_ends": lambda case: compressed(case, "pack-quantized", half, (10, 21), num_bits=4, symmetric=False, **channel),
        "packed8": lambda case: compressed(case, "pack-quantized", half, num_bits=8, **channel),
        "packed2": lambda case: compressed(case, "pack-quantized", torch.float32, **(group | dict(num_bits=2))),
        "int8_rows": lambda case: compressed(case, "int-quantized", num_bits=8, **channel),
        "int8_zeros": lambda case: compressed(case, "int-quantized", num_bits=8, symmetric=False, **channel),
        "int8_tensor": lambda case: compressed(case, "int-quantized", half, num_bits=8, type="int", strategy="tensor"),
        "int4_naive": lambda case: compressed(case, "naive-quantized", **group),
        "fp8_rows": lambda case: compressed(case, "float-quantized", num_bits=8, type="float", strategy="channel"),
        "nf4": lambda case: four_bits(case, "nf4", (24, 40), False, torch.float32),
        "nf4_nested": lambda case: four_bits(case, "nf4", (33, 512), True, brain),
        "fp4": lambda case: four_bits(case, "fp4", (24, 40), False, half),
        "fp4_nested": lambda case: four_bits(case, "fp4", (64, 40), True, half, 128),
        "nf4_ends": lambda case: four_bits(case, "nf4", (5, 7), False, brain),
        "int8": eight_bits,
    }
    tensors, configs = {}, {}
    for case, make in cases.items():
        stored, expected, config = make(f"quantised/{case}")
        tensors |= {f"{case}.{name}": value for name, value in stored.items()}
        tensors[f"{case}.expected"] = expected.float()
        configs[case] = json.dumps(config)
    file = kGoldens / "quantised_weights.safetensors"
    save_file({name: value.detach().contiguous() for name, value in sorted(tensors.items())}, file, metadata=configs)
    file.chmod(0o644)
