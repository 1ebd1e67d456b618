"""Which parts matter, by gradients, and a circuit of them: docs/analysis/attribution-patching.md."""

import sys
from pathlib import Path

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
pairs = hooked.PromptPairs.load(model, sys.argv[3] if len(sys.argv) > 3 else "examples/pairs.jsonl")

# Clean prompts are run; each part is replaced by its value in the corrupted run.
sweep = hooked.SweepOptions(
    from_=model.run_with_cache(pairs.corrupted, act.defaults).cache,
    into=pairs.clean,
    metric=hooked.logit_difference(pairs.answers(), pairs.against()),
)

# 1. Every head and MLP by one gradient, and what that predicts of exact patching.
nodes = hooked.node_attribution_report(model, sweep=sweep, check=5)
scores = nodes.grid.mean("row")  # [node]
for cell in scores.largest(4, "size"):
    print(f"{cell.labels[0]}: {cell.value:g} logits")
check = nodes.check
assert check is not None  # it was asked for
print(f"correlation with patching: {check.correlation:g}, missed {len(check.missed)} of {len(check.cells)}")

# 2. Every edge: what each part reads of each other, averaged over runs between the two prompts' embeddings.
edges = hooked.edge_attribution(model, sweep=sweep, integration=hooked.Integration(over="inputs", steps=5))
edges.mean("row").save(folder / "edges.svg")  # [writer, reader]

# 3. The circuit of the largest nodes, alone, ablated, and compared with other sets of that size.
circuit = hooked.choose_circuit(model, scores, count=4)
circuit.save(folder / "circuit.json")
judged = hooked.judge_circuit(model, circuit, sweep=sweep, sets=60)
print(
    f"{len(circuit)} nodes: faithfulness {judged.faithfulness:g}, completeness {judged.completeness:g}, "
    f"as faithful are {judged.more_faithful * 100:g} % of other sets"
)
print(judged.minimality)

# 4. A single path: from the strongest head straight to the logits.
strongest = nodes.grid.mean("row").largest(1, "size")[0].place
assert strongest is not None  # a node is an activation
direct = hooked.path_patching(model, senders=[strongest], sweep=sweep)
print(f"straight to the logits: {direct.mean('row').at([]):g}")
