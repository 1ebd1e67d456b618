"""Features that matter, and the graph of how they come about: docs/analysis/attribution-graphs.md."""

import sys
from pathlib import Path

import hooked
from hooked import act

toy = Path(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
clean = "When John and Mary went to the shop, John gave a bag to"
corrupted = "When Mary and John went to the shop, Mary gave a bag to"

# 1. On which feature of the stream does the answer depend? Each one that fires is ablated alone.
sae = hooked.Dictionary.load(str(toy.parent / "toy_sae"))
raw = hooked.HookedTransformer.load(str(toy), processing=hooked.WeightProcessing.none())
model = raw.with_dictionary(sae, with_error=True)
tokens = model.to_tokens(clean)
metric = hooked.logit_difference(model.to_token(" Mary"), model.to_token(" John"))
features = act.sae_acts_post(act.resid_post(0))
cache = model.run_with_cache(tokens, act.sae_acts_post).cache
score = metric.score(model, tokens).item()
lost = []
for firing in hooked.firing_features(cache, features, count=0):
    ablated = metric.score(model, tokens, edits=hooked.zero(features.feature(firing.feature)))
    lost.append((score - ablated.item(), firing.feature))
lost.sort(reverse=True)
print(
    f"without feature {lost[0][1]} the logit difference of {score:.6g} loses {lost[0][0]:.6g}, "
    f"without the median of {len(lost)} features {lost[len(lost) // 2][0]:.6g}"
)

# 2. Which features lead to the answer? Transcoders take the place of the MLPs.
transcoders = hooked.DictionarySet.load(str(toy.parent / "toy_transcoders"))
graph = hooked.attribute_graph(raw, transcoders, tokens)
scores = hooked.graph_scores(graph)
pruned = hooked.pruned(graph)
print(f"{graph.features} features, replacement score {scores.replacement:.6g}, {pruned.features} after pruning")
hooked.save_graph(pruned, folder / "graph.json")

# 3. The strongest path that passes an MLP, and what carries its first edge through the layers.
path = next(
    path
    for path in hooked.strongest_paths(pruned)
    if pruned.nodes[path.nodes[-2]].kind == hooked.GraphNodeKind.feature
)
for node in path.nodes:
    print(hooked.node_name(pruned.nodes[node]))
print(hooked.edge_heads(raw, transcoders, tokens, pruned, [(path.nodes[0], path.nodes[1])]))

# 4. Patching finds the same parts: the clean run's outputs, put into the run of the other prompt.
for name in ("attn_head_out_all_pos", "mlp_out"):
    best = hooked.sweep(
        raw,
        hooked.patching_preset(name),
        from_=raw.run_with_cache(tokens).cache,
        into=raw.to_tokens(corrupted),
        metric=metric,
    ).largest(1)[0]
    print(f"{best.place}: {best.value:.6g}")
