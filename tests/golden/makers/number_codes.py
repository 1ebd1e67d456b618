"""Decoders in NumPy of the forms that published matrices are stored in, written from the formats' own descriptions (OCP
Microscaling Formats 1.0, OCP 8-bit Floating Point 1.0), and a coder for tests."""

import numpy as np


def e4m3(codes: np.ndarray) -> np.ndarray:
    """The numbers of sign, 4 bits of exponent (bias 7) and 3 of mantissa, in float32."""
    exponent, mantissa = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float64)
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    size = np.where((codes & 127) == 127, np.nan, size)
    return np.where(codes & 128, -size, size).astype(np.float32)


def e2m1(codes: np.ndarray) -> np.ndarray:
    """The numbers of sign, 2 bits of exponent (bias 1) and 1 of mantissa, in float32."""
    exponent, mantissa = (codes >> 1 & 3).astype(np.int32), (codes & 1).astype(np.float64)
    size = np.where(exponent == 0, mantissa / 2, (1 + mantissa / 2) * 2.0 ** (exponent - 1.0))
    return np.where(codes & 8, -size, size).astype(np.float32)


def mxfp4(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """[..., row, group, 16] bytes and [..., row, group] exponents to [..., group * 32, row]."""
    numbers = np.stack([e2m1(blocks & 15), e2m1(blocks >> 4)], -1).reshape(*blocks.shape[:-1], 32).astype(np.float64)
    numbers = (numbers * 2.0 ** (scales.astype(np.float64) - 127)[..., None]).astype(np.float32)
    return numbers.reshape(*numbers.shape[:-2], -1).swapaxes(-1, -2)


def fp8(codes: np.ndarray, factors: np.ndarray, block=None) -> np.ndarray:
    """Numbers times the factor of all, of their row, or of their block [rows, columns], rounded to float32 once."""
    factors = factors.astype(np.float32)
    if block:
        factors = factors.repeat(block[0], -2)[..., :codes.shape[-2], :].repeat(block[1], -1)[..., :codes.shape[-1]]
    return e4m3(codes) * factors


def to_e4m3(numbers: np.ndarray) -> np.ndarray:
    """The codes of the nearest numbers."""
    table = e4m3(np.arange(256, dtype=np.uint8))
    order = np.argsort(np.where(np.isnan(table), np.inf, table))[:254]
    return order[np.abs(table[order] - numbers[..., None]).argmin(-1)].astype(np.uint8)
