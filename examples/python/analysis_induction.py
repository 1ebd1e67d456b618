"""How a model builds its induction head: the parts of the stream that make up its queries and its keys."""

import sys

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")

# The head that looks most at what followed the token's earlier occurrence.
repeated = hooked.repeated_tokens_of(model)
repeated.rows = 1
tokens = hooked.repeated_random_tokens(repeated)
cache = model.run_with_cache(tokens).cache
best = hooked.head_scores(cache, "induction", tokens=tokens).largest(1)[0]
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
for input in ("key", "query"):
    composed = hooked.composition_scores(model, input)
    into = composed.scores.slice("to_layer", layer).slice("to_head", head)
    writer = into.largest(1)[0]
    above_random = (writer.value - composed.random_mean) / composed.random_deviation
    print(
        f"{composed.scores.title}: head {writer.labels[0]}.{writer.labels[1]}, "
        f"{above_random:g} deviations above random"
    )
