"""Records quantised weights and the numbers that they stand for, in tests/golden/stored_numbers.safetensors.

`<case>.expected` is what transformers makes of `<case>.weight*`, or the decoder of number_codes.py where transformers does not read
such factors on a CPU; where both do they must agree to the last bit. The test QuantisedSource reads the file.
"""

import numpy as np
import torch
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from . import number_codes
from .case_files import generator_for, kGoldens


def codes(name: str, *shape) -> torch.Tensor:
    """Random bytes, all of them where there are enough."""
    count = int(np.prod(shape))
    every = torch.randint(0, 256, (count,), generator=generator_for(name), dtype=torch.uint8)
    every[:256] = torch.arange(min(256, count), dtype=torch.uint8)
    return every.reshape(shape)


def finite(bytes_of_e4m3: torch.Tensor) -> torch.Tensor:
    return bytes_of_e4m3.masked_fill((bytes_of_e4m3 & 127) == 127, 3)


def same_bits(first: torch.Tensor, second: np.ndarray) -> None:
    assert torch.equal(first.float().contiguous().view(torch.int32), torch.from_numpy(np.ascontiguousarray(second)).view(torch.int32))


def mxfp4() -> dict:
    blocks = codes("mxfp4/blocks", 3, 17, 5, 16)
    scales = (torch.arange(3 * 17 * 5) % 255).to(torch.uint8).reshape(3, 17, 5)
    expected = convert_moe_packed_tensors(blocks, scales).contiguous()
    with np.errstate(over="ignore"):
        same_bits(expected, number_codes.mxfp4(blocks.numpy(), scales.numpy()))
    return {"mxfp4.w_blocks": blocks, "mxfp4.w_scales": scales, "mxfp4.expected": expected}


def fp8(case: str, shape, factors: torch.Tensor, ending: str, block=None, of_transformers=False) -> dict:
    numbers = finite(codes(f"{case}/codes", *shape))
    as_numbers = factors
    if factors.dtype == torch.float8_e8m0fnu:
        as_numbers = factors.float()
    expected = number_codes.fp8(numbers.numpy(), as_numbers.float().numpy(), block)
    if of_transformers:
        same_bits(Fp8Dequantize(None)._dequantize_one(numbers.view(torch.float8_e4m3fn), factors, torch.float32), expected)
    return {f"{case}.weight": numbers.view(torch.float8_e4m3fn), f"{case}.weight{ending}": factors,
            f"{case}.expected": torch.from_numpy(np.ascontiguousarray(expected))}


def main(_arguments: list) -> None:
    def random(case, *shape):
        return torch.rand(shape, generator=generator_for(case)) + 0.01

    tensors = mxfp4()
    tensors |= fp8("block", (24, 32), random("block", 3, 2), "_scale_inv", (8, 16), of_transformers=True)
    tensors |= fp8("ends", (21, 19), random("ends", 3, 2), "_scale_inv", (8, 16))  # transformers wants whole blocks
    tensors |= fp8("experts", (3, 9, 11), random("experts", 3, 3, 2), "_scale_inv", (4, 6))
    tensors |= fp8("exponents", (16, 16), random("exponents", 2, 2).to(torch.float8_e8m0fnu), "_scale_inv", (8, 8),
                   of_transformers=True)
    tensors |= fp8("row", (9, 13), random("row", 9, 1).to(torch.bfloat16), "_scale")
    tensors |= fp8("tensor", (9, 13), random("tensor", 1), "_scale")
    tensors |= fp8("scalar", (9, 13), random("scalar", 1).reshape(()), "_scale_inv")
    codes_of_all = torch.arange(256, dtype=torch.uint8)
    same = torch.isnan(codes_of_all.view(torch.float8_e4m3fn).float())
    same_bits(codes_of_all.view(torch.float8_e4m3fn).float()[~same], number_codes.e4m3(codes_of_all.numpy())[~same.numpy()])
    file = kGoldens / "stored_numbers.safetensors"
    save_file({name: value.contiguous() for name, value in sorted(tensors.items())}, file)
    file.chmod(0o644)
