"""What the stream of a token is made of, from which tokens it came, and what each point of it says."""

import sys
from pathlib import Path

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
run = model.run_with_cache("When John and Mary went to the shop, John gave a bag to")
mary, john = model.to_token(" Mary"), model.to_token(" John")

# The parts of the last token's stream: [row, part, pos, d_model], all parts add up to the stream.
parts = hooked.residual_parts(model, run.cache, grain="head")
print(f"{len(parts.axis('part').labels)} places: {parts.title}")

# The same along directions, without any part as a vector: every neuron along the two answers.
answers = model.weights.W_U().T[[mary, john]]  # [direction, d_model]
neurons = hooked.residual_parts(model, run.cache, of=act.ln_final_normalized, grain="neuron", along=answers)
for cell in neurons.slice("direction", 0).largest(3):
    print(f"{cell.labels[1]} {cell.value:g}")

# The stream as it grows, and how the logit difference grows with it.
points = hooked.accumulated_residual(model, run.cache, mid=True)
print(hooked.direct_logit_attribution(model, run.cache, points, answer=mary, against=john))

# From which tokens the heads brought it, and why the strongest one looks there.
sources = hooked.source_attribution(model, run.cache, answer=mary, against=john)
best = sources.largest(1)[0]
print(f"{best.labels[1]} from {best.labels[3]}: {best.value:g} logits")
sources.slice("row", 0).slice("pos", 0).save(folder / "sources.svg")  # [part, key]
scores = hooked.score_attribution(model, run.cache, scores=act.attn_scores(1).head(3), grain="head", keys=[3, 10])
for cell in scores.largest(3, "size"):
    print(f"{cell.labels[1]} x {cell.labels[2]} at key {cell.labels[4]}: {cell.value:g}")

# A token's rank, through the layers, and what heads say by themselves.
print(hooked.logit_lens(model, run.cache, tokens=[mary], mid=True).ranks.slice("row", 0))
print(hooked.logit_lens(model, run.cache, top_k=1, parts="layer"))
