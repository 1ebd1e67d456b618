"""How a model builds its induction head: the parts of the stream that make up its queries and its keys."""

import sys

import torch

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")

# The head that looks most at what followed the token's earlier occurrence.
repeated = hooked.repeated_tokens_of(model)
repeated.rows = 1
tokens = hooked.repeated_random_tokens(repeated)
cache = model.run_with_cache(tokens).cache
looks = hooked.head_scores(cache, "induction", tokens=tokens)
best = looks.largest(1)[0]
layer, head = best.index
print(f"head {best.labels[0]}.{best.labels[1]} gives it {best.value:g}")

# Its last query, and the key that follows the token's first occurrence: by how much each pair of parts raises the
# score above that of the keys in the mean.
followed = tokens.shape[1] - repeated.half
scores = hooked.score_attribution(model, cache, scores=act.attn_scores(layer).head(head), grain="head", queries=[-1])
of_query = scores.slice("row", 0).slice("query", 0)  # [query_part, key_part, key]
above = of_query.slice("key", followed) - of_query.mean("key")
for cell in above.largest(3):
    print(f"{cell.labels[0]} looks for {cell.labels[1]}: {cell.value:g}")

# Which heads it reads with its keys, and with its queries, compared with random weights.
read = []
for input in ("key", "query"):
    composed = hooked.composition_scores(model, input)
    into = composed.scores.slice("to_layer", layer).slice("to_head", head)
    writer = into.largest(1)[0]
    above_random = (writer.value - composed.random_mean) / composed.random_deviation
    print(
        f"{composed.scores.title}: head {writer.labels[0]}.{writer.labels[1]}, "
        f"{above_random:g} deviations above random"
    )
    read.append(writer.index)

# Patching: heads read a row whose first half is other words, so that nothing is repeated. The head alone, all heads
# that look there, and the one that it reads with its keys.
repeated.seed += 1
other = hooked.repeated_random_tokens(repeated)
unrepeated = torch.cat([other[:, :followed], tokens[:, followed:]], 1)


def head_at(index: list[int]) -> hooked.Address:
    head: hooked.Address = act.z(index[0]).head(index[1])
    return head


alike = [head_at(cell.index) for cell in looks.largest(8) if cell.value > 0.5]
without = hooked.ablate(
    model,
    sets=[[], [head_at(best.index)], alike, [head_at(read[0])]],
    sweep={
        "from_": model.run_with_cache(unrepeated, act.z).cache,
        "into": tokens,
        "metric": hooked.log_probability(int(tokens[0, followed].item())),
    },
)
print(
    f"log-probability of what followed: {without.at([0]):g}, without head {best.labels[0]}.{best.labels[1]} "
    f"{without.at([1]):g}, without {len(alike)} such heads {without.at([2]):g}, "
    f"without what its keys read {without.at([3]):g}"
)
