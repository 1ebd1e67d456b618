"""Records blocks of every format of GGUF that is read, and the numbers that they stand for.

tests/golden/gguf/blocks.gguf is written by the package `gguf`; tests/golden/gguf/blocks.safetensors has what its `dequantize` makes of
each tensor, in float32. Formats that the package can write hold quantised random numbers, and all hold random bytes under factors of
every size, ends included. The test GgufTensors compares them to the last bit.
"""

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, GGUFWriter, quants
from safetensors.torch import save_file

from .case_files import kGoldens

kFolder = kGoldens / "gguf"
kPlain = {Type.F32: np.float32, Type.F16: np.float16}
# Byte offsets of a block's factors in half precision.
kHalves = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.Q2_K: [80, 82],
           Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.MXFP4: [], Type.IQ4_NL: [0]}
kFactors = np.array([0.0, -0.0, 1.0, -1.0, 6e-8, 6.1e-5, 65504.0, 0.333, -0.0123, 3.14], dtype=np.float16)


def random_blocks(kind: Type, random: np.random.Generator, rows: int) -> np.ndarray:
    size, length = GGML_QUANT_SIZES[kind]
    blocks_of_row = 768 // size
    blocks = random.integers(0, 256, size=(rows * blocks_of_row, length), dtype=np.uint8)
    for at in kHalves[kind]:
        factors = random.choice(kFactors, size=len(blocks))
        blocks[:, at:at + 2] = factors.view(np.uint8).reshape(-1, 2)
    if kind == Type.MXFP4:
        blocks[:, 0] = np.arange(len(blocks), dtype=np.uint8) * 8 % 255
        blocks[:6, 0] = [0, 1, 2, 127, 254, 255]
    return blocks.reshape(rows, blocks_of_row * length)


def main(_arguments: list) -> None:
    random = np.random.default_rng(17)
    kFolder.mkdir(exist_ok=True)
    writer = GGUFWriter(kFolder / "blocks.gguf", "llama")
    expected = {}
    numbers = random.standard_normal((2, 256)).astype(np.float32)
    numbers[0, :4] = [0.0, -0.0, 1e-30, 3e4]
    for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.MXFP4):
        stored = quants.quantize(numbers, kind)
        name = f"{kind.name}.numbers"
        writer.add_tensor(name, stored, raw_dtype=kind)
        expected[name] = quants.dequantize(stored, kind)
    for kind in kHalves:
        stored = random_blocks(kind, random, rows=1)
        name = f"{kind.name}.blocks"
        writer.add_tensor(name, stored, raw_dtype=kind)
        with np.errstate(all="ignore"):
            expected[name] = quants.dequantize(stored, kind)
    writer.add_tensor("F64.numbers", numbers[0, :4].astype(np.float64))
    expected["F64.numbers"] = numbers[0, :4].astype(np.float64)
    writer.add_tensor("I32.numbers", np.arange(5, dtype=np.int32))
    expected["I32.numbers"] = np.arange(5, dtype=np.int32)
    # A format that is described but not read.
    size, length = GGML_QUANT_SIZES[Type.IQ2_XS]
    writer.add_tensor("IQ2_XS.blocks", np.zeros((1, length), dtype=np.uint8), raw_dtype=Type.IQ2_XS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = kFolder / "blocks.safetensors"
    save_file({name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in sorted(expected.items())}, file)
    for made in (file, kFolder / "blocks.gguf"):
        made.chmod(0o644)
