"""Which heads carry the answer? Activation patching, averaged over several pairs of prompts."""

import sys
from pathlib import Path

import hooked
from hooked import PromptPair, act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
pairs = hooked.PromptPairs(
    model,
    [
        PromptPair(
            clean="When John and Mary went to the shop, John gave a bag to",
            corrupted="When John and Mary went to the shop, Mary gave a bag to",
            answers=[" Mary"],
            against=[" John"],
        ),
        PromptPair(
            clean="When Mary and John went to the shop, Mary gave a bag to",
            corrupted="When Mary and John went to the shop, John gave a bag to",
            answers=[" John"],
            against=[" Mary"],
        ),
    ],
)
metric = hooked.logit_difference(pairs.answers(), pairs.against())
patched = hooked.sweep(
    model,
    site=act.z,
    over=["layer", "head"],
    from_=model.run_with_cache(pairs.clean, act.z).cache,
    into=pairs.corrupted,
    metric=metric,
)  # [row, layer, head]
# 0: as wrong as the corrupted run, 1: as right as the clean one; each pair on its own scale.
mean = patched.rescaled(
    hooked.scores(model, pairs.corrupted, metric),
    hooked.scores(model, pairs.clean, metric),
    "share of the answer that comes back",
).mean("row")
print(mean)
mean.save(folder / "heads.svg")
