"""Compares the recorded logits of checkpoints with those of the transformers that is installed, whatever its version.

A rule that follows one version of transformers may not be that of the next: this shows it. `make.py newest [CASE-GLOB ...]` loads
each case's folder in float64 and compares the projection of its logits (README.md, "Projections") with the recorded one. It
writes nothing. Listed are cases that differ, and those that this transformers does not load; the exit status is 1 if any differs.
"""

import sys

import torch
import transformers

from .padding import of_activation
from .projections import projection
from .saved_models import cases, computing_in, inputs_of, load, logits_line, logits_of

kTolerance = 1e-9


def difference(case: str) -> float:
    """Relative to the largest logit; of projections, to what a sum of that many numbers may differ by."""
    line, recorded = logits_line(case)
    inputs = inputs_of(case)
    with computing_in(torch.float64):
        logits = logits_of(load(case, torch.float64), inputs)
    left_out = of_activation(inputs, "logits", logits)
    if line is None:
        of_both = torch.stack([recorded, logits])
        wrong = (of_both[0] - of_both[1]).abs()
        return ((wrong if left_out is None else wrong.masked_fill(left_out, 0)).max() / recorded.abs().max()).item()
    shape, (largest, *sums) = projection("logits", logits, left_out)
    if shape != line:
        return float("inf")
    scale = max(1.0, recorded[0]) * logits.numel()**0.5
    return max(abs(largest - recorded[0]) / max(1.0, recorded[0]), *(abs(a - b) / scale for a, b in zip(sums, recorded[1:])))


def main(globs: list) -> int:
    torch.set_num_threads(1)
    differing, unread, all_cases = 0, 0, cases(globs)
    for case in all_cases:
        try:
            found = difference(case)
        except Exception as error:  # every case is shown, whatever happens to one
            unread += 1
            print(f"{case:40} not loaded  {type(error).__name__}: {str(error).splitlines()[0][:100]}", flush=True)
            continue
        if not found <= kTolerance:
            differing += 1
            print(f"{case:40} DIFFERS  {found:.1e}", flush=True)
    print(f"transformers {transformers.__version__}: {len(all_cases)} cases, {differing} differ, {unread} not loaded",
          file=sys.stderr)
    return 1 if differing else 0
