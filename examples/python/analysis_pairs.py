"""Pairs of prompts from a file, scored and compared."""

import sys
from pathlib import Path

import hooked
from hooked import PromptPair, act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
written = [
    PromptPair(
        clean="When John and Mary went to the shop, John gave a bag to",
        corrupted="When John and Mary went to the shop, Mary gave a bag to",
        answers=[" Mary"],
        against=[" John"],
        places={"giver": (10, 10), "shop": ("shop", "shop")},
    ),
    PromptPair(
        clean="Then Mary and John went to the park, and Mary gave a book to",
        corrupted="Then Mary and John went to the park, and John gave a book to",
        answers=[" John"],
        against=[" Mary"],
        places={"giver": (-5, -5), "shop": ("park", "park")},
    ),
]
hooked.write_prompt_pairs(folder / "pairs.jsonl", written, overwrite="any")
pairs = hooked.PromptPairs.load(model, folder / "pairs.jsonl")  # two padded batches

# Each pair's own answers, at each row's last token.
difference = hooked.logit_difference(pairs.answers(), pairs.against())
print(difference.score(model, pairs.clean), difference.score(model, pairs.corrupted))

# How far the corrupted run's prediction is from the clean one's, in nats.
reference = hooked.logits_at(model, pairs.clean)  # [pair, 1, vocab]
print(hooked.kl_divergence(reference).score(model, pairs.corrupted))

# A score of activations: how much head 1.3 attends from the last token to the one who gives.
attends = hooked.attention(act.pattern(1).head(3), "last", pairs.clean_place("giver"))
print(attends.score(model, pairs.clean))

# The same metric differentiates: only the logits that it reads are computed.
bound = difference.on(model, pairs.clean)
run = model.run(pairs.clean, gradients=hooked.GradientRequest(of=act.resid_pre, metric=bound))
print(f"{run.gradients[act.resid_pre(1)].norm().item():.16g}")
