"""What you can do with a grid: slices, means, differences, the strongest cells, files."""

import sys
from pathlib import Path

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to")
cache = model.run_with_cache(tokens, act.pattern).cache

# [row, layer, head]; a mean leaves out what was not computed (NaN).
previous = hooked.head_scores(cache, "previous_token", rows="each")
induction = hooked.head_scores(cache, "induction", tokens=tokens, rows="each")
print(previous.mean("row"))
print(previous.slice("row", 0).slice("layer", "1"))

# Grids with the same axes, labels and unit subtract; the largest may be by value or by size.
difference = induction - previous
for cell in difference.largest(3, "size"):
    print(f"layer {cell.labels[1]}, head {cell.labels[2]}: {cell.value:g}")

difference.save(folder / "scores.csv")
difference.save(folder / "scores.safetensors")
again = hooked.Grid.load(folder / "scores.csv")  # the same, to the last bit
print(f"{again.title}: {again.at([0, 1, 3]):g}")
