"""Circuits of heads from weights only: docs/analysis/weight-circuits.md."""

import sys
from pathlib import Path

import hooked

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")

# What head 0.3 writes of what it reads: a d_model x d_model matrix of rank d_head that is never made.
ov = hooked.ov_circuits(model)  # [layer, head, d_model, d_model]
head = ov[0][3]
S = head.svd().S
print(f"rank {len(S)}, norm {head.norm().item():g}, largest singular value {S[0].item():g}")

# What seeing each token does to the logits of all tokens, still in two thin factors.
w = model.weights
full = w.W_E() @ head @ w.W_U()  # [vocab, vocab]
mary = model.to_token(" Mary")
print(f"Mary raises Mary by {full.at(mary, mary).item():g} logits before any norm")

# Which heads of layer 1 read what heads of layer 0 write, compared with random weights.
keys = hooked.composition_scores(model, "key")
layer_1 = keys.scores.slice("layer", 0).slice("to_layer", 1)  # [head, to_head]
print(layer_1)
print(f"random heads: {keys.random_mean:g} +- {keys.random_deviation:g}")
layer_1.save(folder / "composition.svg")

# Which heads copy: 1 where every eigenvalue of the full circuit is positive.
copying = hooked.copying_scores(model, top_k=5)
print(copying.eigenvalues)
print(copying.top_k)
