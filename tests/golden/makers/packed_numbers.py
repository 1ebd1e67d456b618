"""Whole numbers of a few bits as checkpoints hold them: packers and decoders in NumPy, written from the formats' packing rules.
quantised_weights.py holds them to the formats' own packages."""

import numpy as np
import torch

kAwqOrder = [0, 2, 4, 6, 1, 3, 5, 7]  # which of eight neighbours is where in a word, from the lowest bits on
# The 16 numbers of bitsandbytes' nf4 (the quantiles of a normal distribution, from the QLoRA paper) and fp4.
kNf4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                 -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], np.float32)
kFp4 = np.array([0, 0.0625, 8, 12, 4, 6, 2, 3, -0.0, -0.0625, -8, -12, -4, -6, -2, -3], np.float32) / np.float32(12)
kPartOf127 = np.float32(7.874015718698502e-3)


def pack_along(codes: np.ndarray, bits: int) -> np.ndarray:
    """[row, number] to int32 [row, word]: number i has the bits from i * bits on, the last word is filled up with zeros."""
    each = codes.astype(np.uint8)[..., None] >> np.arange(bits, dtype=np.uint8) & 1
    stream = each.reshape(len(codes), -1)
    stream = np.pad(stream, ((0, 0), (0, -stream.shape[1] % 32)))
    return np.packbits(stream, -1, bitorder="little").view("<i4")


def unpack_along(words: np.ndarray, bits: int, count: int) -> np.ndarray:
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), -1, bitorder="little")
    each = stream[:, :count * bits].reshape(len(words), count, bits).astype(np.int64)
    return (each << np.arange(bits)).sum(-1)


def pack_down(codes: np.ndarray, bits: int) -> np.ndarray:
    return np.ascontiguousarray(pack_along(np.ascontiguousarray(codes.T), bits).T)


def unpack_down(words: np.ndarray, bits: int, count: int) -> np.ndarray:
    return unpack_along(np.ascontiguousarray(words.T), bits, count).T


def pack_awq(codes: np.ndarray) -> np.ndarray:
    return pack_along(codes.reshape(len(codes), -1, 8)[..., kAwqOrder].reshape(codes.shape), 4)


def unpack_awq(words: np.ndarray) -> np.ndarray:
    mixed = unpack_along(words, 4, words.shape[1] * 8).reshape(len(words), -1, 8)
    numbers = np.empty_like(mixed)
    numbers[..., kAwqOrder] = mixed
    return numbers.reshape(len(words), -1)


def scaled(codes: np.ndarray, zeros: np.ndarray, factors: torch.Tensor) -> torch.Tensor:
    """(code - zero point) * factor, rounded to the factors' dtype once; all of one shape."""
    difference = torch.from_numpy((codes - zeros).astype(np.float32))
    return (difference * factors.float()).to(factors.dtype).float()


def gptq(tensors: dict, bits: int, version: int) -> torch.Tensor:
    """[out, in] of `qweight`, `qzeros`, `scales`, `g_idx`."""
    words, order = tensors["qweight"].numpy(), tensors["g_idx"].numpy()
    codes = unpack_down(words, bits, len(order))
    zeros = unpack_along(tensors["qzeros"].numpy(), bits, words.shape[1])
    if version == 1:
        zeros = zeros + 1 & 2**bits - 1
    return scaled(codes, zeros[order], tensors["scales"][torch.from_numpy(order).long()]).T


def awq(tensors: dict, group: int) -> torch.Tensor:
    codes, zeros = unpack_awq(tensors["qweight"].numpy()), unpack_awq(tensors["qzeros"].numpy())
    return scaled(codes, zeros.repeat(group, 0), tensors["scales"].repeat_interleave(group, 0)).T


def levels(codes: torch.Tensor, factors: torch.Tensor, table: np.ndarray, stretch: int, shape, dtype) -> torch.Tensor:
    """bitsandbytes' four-bit numbers: two places in a table to a byte, the first in the upper half."""
    both = codes.reshape(-1).numpy()
    places = np.stack([both >> 4, both & 15], -1).reshape(-1)[:int(np.prod(shape))]
    spread = factors.numpy().repeat(stretch)[:len(places)]
    return torch.from_numpy(table[places] * spread).to(dtype).float().reshape(*shape)


def nested_factors(places: torch.Tensor, factors: torch.Tensor, table: torch.Tensor, stretch: int, offset: float) -> torch.Tensor:
    spread = factors.numpy().repeat(stretch)[:len(places)]
    return torch.from_numpy(table.numpy()[places.numpy()] * spread + np.float32(offset))
