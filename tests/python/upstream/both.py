"""What the scripts share that compare a package on hooked.transformer_lens with the same package on TransformerLens."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def with_values(module: Any, scale: float, but: str = "\n") -> Any:
    """The module, with random weights added to those whose names do not begin with `but`."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if not name.startswith(but):
                weight.add_(scale * torch.randn_like(weight))
    return module


def compare(
    script: Path,
    usage: str | None,
    values: Callable[[], dict[str, torch.Tensor]],
    bounds: dict[torch.dtype, float],
) -> int:
    """Runs `values` in a process each on both, as the script that calls this; the exit status says whether they agree.

    A difference counts by the largest number of the tensor where that is above 1, and must be below the bound of its
    dtype; integers must be equal.
    """
    options = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--packages", nargs="*", default=[])
    options.add_argument("--save", help=argparse.SUPPRESS)
    options.add_argument("--on", choices=["hooked", "transformer_lens"], help=argparse.SUPPRESS)
    given = options.parse_args()
    sys.path[1:1] = given.packages
    if given.save:
        if given.on == "hooked":
            import hooked.transformer_lens

            hooked.transformer_lens.install()
        torch.save({name: value.detach() for name, value in values().items()}, given.save)
        return 0
    both = []
    with tempfile.TemporaryDirectory() as folder:
        for on in ("transformer_lens", "hooked"):
            file = Path(folder) / on
            how = ["--on", on, "--save", str(file), "--packages", *given.packages]
            subprocess.run([sys.executable, "-W", "ignore", str(script), *how], check=True, env=dict(os.environ))
            both.append(torch.load(file))
    return report(*both, bounds)


def report(theirs: dict[str, torch.Tensor], ours: dict[str, torch.Tensor], bounds: dict[torch.dtype, float]) -> int:
    """Prints how many values there are and the largest difference of each dtype."""
    if theirs.keys() != ours.keys():
        print("not in both:", *sorted(theirs.keys() ^ ours.keys()), sep="\n")
        return 1
    worst, wrong = dict.fromkeys(bounds, 0.0), 0
    for name, value in theirs.items():
        mine = ours[name]
        bound = bounds.get(value.dtype)
        if mine.shape != value.shape or mine.dtype != value.dtype or (bound is None and not torch.equal(mine, value)):
            print(f"{name}: {value.dtype} {tuple(value.shape)}, {mine.dtype} {tuple(mine.shape)}")
            wrong += 1
        elif bound is not None and value.numel():
            size = max(1.0, value[value.isfinite()].abs().max().item()) if value.isfinite().any() else 1.0
            difference = torch.where(value == mine, 0.0, (value - mine).abs()).max().item() / size
            if not difference < bound:
                print(f"{name}: {difference}")
                wrong += 1
            worst[value.dtype] = max(worst[value.dtype], difference)
    figures = ", ".join(f"{worst[dtype]:.1e} in {str(dtype).removeprefix('torch.')}" for dtype in bounds)
    print(f"{len(theirs)} values, largest difference {figures}")
    return int(wrong > 0)
