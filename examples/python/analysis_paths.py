"""Paths, virtual weights and directions from weights: docs/analysis/virtual-weights.md."""

import sys
from pathlib import Path

import hooked
from hooked import StreamPart

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")

# How head 0.3 scores tokens by tokens that stand one before them: [vocab, vocab], in two thin factors.
mary, john = model.to_token(" Mary"), model.to_token(" John")
full = hooked.full_qk_circuit(model, (0, 3), distance=1)
print(f"John looks at the Mary before it with {full.at(john, mary).item():g}, before any norm's scale")

# How the values of head 1.3 read what head 0.1 writes, and what of it they see at all.
writer = StreamPart("head_out", layer=0, index=1)
reader = StreamPart("value", layer=1, index=3)
between = hooked.virtual_weights(model, writer, reader)  # [d_head, d_head]
overlap = hooked.subspace_overlap(model, writer, reader)
print(
    f"virtual weights of norm {between.norm().item():g}; of what is written {100 * overlap.overlap:g} % is read, "
    f"by chance {100 * overlap.random:g} %"
)

# The answer by paths: direct, through one head, through two. MLPs are where paths begin.
run = model.run_with_cache("When John and Mary went to the shop, John gave a bag to")
paths = hooked.path_expansion(model, run.cache, answer=mary, against=john, order=2)
every = paths.slice("row", 0).slice("pos", 0)  # [source, path]
for cell in every.largest(5, "size"):
    print(f"{cell.labels[0]} by {cell.labels[1]}: {cell.value:g}")
every.save(folder / "paths.svg")

# What head 1.3 writes, direction by direction, as tokens.
print(hooked.singular_directions(model, layer=1, index=3, directions=3, top_k=3))

# How neurons' outputs share the stream.
neurons = hooked.stream_matrix(model, StreamPart("mlp_out", layer=1))
packed = hooked.superposition(neurons)
print(
    f"{neurons.shape[0]} neurons in {neurons.shape[1]} dimensions: the closest two have a cosine of "
    f"{packed.largest_cosine:g}, no arrangement less than {packed.welch_bound:g}"
)
