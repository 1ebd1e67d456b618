"""How expected values are stored: small tensors and inputs whole, the others as what they weigh (README.md, "Projections").

A file is one of safetensors. Its tensor `projections` has a row [max |x|, 4 dot products] for each line of the metadata
`projected`: the name, the shape and, where some places hold no finite number, how many are -inf, how many are left out, and a
hash of where both stand. tests/support/recorded.cc reads these files and computes the same of our numbers.
"""

import math
import pathlib

import numpy
import torch
from safetensors.torch import save_file

kGoldens = pathlib.Path(__file__).resolve().parents[1]

kSums = 4
kSmall = 8  # numbers of the largest tensor that stays whole
# Tensors that a test reads rather than compares.
kAlwaysWhole = {"tokens", "attention_mask", "token_type_ids", "decoder_tokens", "decoder_attention_mask", "greedy", "clean", "corrupted",
           "answer", "against", "directions"}
# Cases whose tensors all stay whole, for stepping through. For T5 it is the padded one, as the plain model of
# tests/reference is compared with its real tokens alone.
kWhole = ("gpt2", "llama", "gemma2", "gemma4_text_e2b", "deepseek_v3", "qwen3_next", "mixtral", "gpt_oss", "bert", "t5_padded", "lfm2",
          "tl_grouped")
kMinusInfinity, kLeftOut = 1, 2  # kinds of places, in their hash
kU64 = numpy.uint64


def splitmix64(x: numpy.ndarray) -> numpy.ndarray:
    """https://prng.di.unimi.it/splitmix64.c, of the states `x`."""
    z = x + kU64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> kU64(30))) * kU64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> kU64(27))) * kU64(0x94D049BB133111EB)
    return z ^ (z >> kU64(31))


def hash_of(name: str) -> int:
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def weights(name: str, which: int, count: int) -> numpy.ndarray:
    """Of each place in one of the dot products: in [-1, 1), and a multiple of 2^-52, so that any language draws the same."""
    counter = numpy.arange(count, dtype=kU64) + kU64((hash_of(name) + which * 2**32) % 2**64)
    return 2.0 * ((splitmix64(counter) >> kU64(11)).astype(numpy.float64) * 2.0**-53) - 1.0


def projection(name: str, value: torch.Tensor, left_out: torch.Tensor | None) -> tuple:
    """A line of the metadata and a row of the table."""
    x = value.detach().double().numpy().ravel()
    skipped = numpy.isnan(x)  # what is missing
    if left_out is not None:
        skipped |= left_out.numpy().ravel()
    minus = numpy.isneginf(x) & ~skipped
    numbers = numpy.where(skipped | minus, 0.0, x)
    assert numpy.isfinite(numbers).all(), name
    # Correctly rounded sums, so that they depend on no library.
    sums = [math.fsum((weights(name, which, len(x)) * numbers).tolist()) for which in range(kSums)]
    line = f"{name} {','.join(map(str, value.shape))}"
    if minus.any() or skipped.any():
        kinds = kMinusInfinity * minus + kLeftOut * skipped
        places = numpy.flatnonzero(kinds).astype(kU64)
        hashed = splitmix64(places + (kinds[kinds > 0].astype(kU64) << kU64(32))).sum(dtype=kU64)
        line += f" {minus.sum()} {skipped.sum()} {hashed:016x}"
    return line, [float(numpy.abs(numbers).max(initial=0.0)), *sums]


def save_expected(path, tensors: dict, left_out=lambda name, value: None) -> None:
    """Writes expected values; `left_out` gives the places of a tensor that tests do not compare, or None."""
    whole, lines, rows = {}, [], []
    for name, value in sorted(tensors.items()):
        if name in kAlwaysWhole or value.numel() <= kSmall:
            whole[name] = value.detach().clone().contiguous()
        else:
            line, row = projection(name, value, left_out(name, value))
            lines.append(line)
            rows.append(row)
    if rows:
        whole["projections"] = torch.tensor(rows, dtype=torch.float64)
    save_file(whole, path, metadata={"projected": "\n".join(lines)} if rows else None)
    path.chmod(0o644)
