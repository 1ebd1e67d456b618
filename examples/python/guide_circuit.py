"""Which parts give the answer? Mean ablation, the paths between heads, and a circuit that is judged."""

import sys
from typing import Any

import torch

import hooked
from hooked import PromptPair, act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")


def pair(one: str, two: str) -> PromptPair:
    def prompt(giver: str) -> str:
        return f"When {one} and {two} went to the shop, {giver} gave a bag to"

    # What follows a word begins with a blank.
    return PromptPair(clean=prompt(one), corrupted=prompt(two), answers=[f" {two}"], against=[f" {one}"])


# Prompts of one template, so that a column is the same place in all of them; each name is the answer once.
names = [("John", "Mary"), ("Mary", "John"), ("James", "Anna"), ("Anna", "James")]
pairs = hooked.PromptPairs(model, [pair(one, two) for one, two in names])
metric = hooked.logit_difference(pairs.answers(), pairs.against())
print(f"logit difference: {hooked.scores(model, pairs.clean, metric).mean('row').at([]):g}\n")

# 1. Mean ablation: each head becomes its mean over both kinds of prompts, at each position its own.
both = torch.cat([pairs.clean.tokens, pairs.corrupted.tokens])
data = model.run_with_cache(both, act.z | act.mlp_out).cache
mean = hooked.PatchSource.mean(data, "rows")
ablated: dict[str, Any] = {"from_": mean, "into": pairs.clean, "metric": metric}
by_head = hooked.sweep(model, site=act.z, over=["layer", "head"], **ablated).mean("row")
print(by_head)
print()

# 2. Path patching: what layer 1's queries and the logits read of heads 0.2 and 0.3.
receivers = [act.q(1).head(head) for head in range(model.config.n_heads)] + [act.resid_post(-1)]
patched = hooked.path_patching(
    model,
    senders=[act.z(0).head(2), act.z(0).head(3)],
    receivers=receivers,
    through="mlps",
    cells="each_receiver",
    sweep={"from_": model.run_with_cache(pairs.corrupted).cache, "into": pairs.clean, "metric": metric},
)
print(patched.mean("row"))
print()

# 3. A circuit, alone: all other heads and MLPs are mean-ablated.
circuit = hooked.Circuit.of_nodes(model, ["head 0.2", "head 0.3", "mlp 0", "mlp 1"])
judged = hooked.judge_circuit(model, circuit, sweep=ablated, sets=40)
print(
    f"whole model {judged.whole:g}, everything ablated {judged.none:g}, circuit {judged.circuit:g}, "
    f"the rest {judged.without:g}\nfaithfulness {judged.faithfulness:g}, completeness {judged.completeness:g}\n"
)
print(judged.minimality)

# 4. The four heads whose ablation changes the score most, next to that circuit; no name is spelled.
change = by_head - hooked.scores(model, pairs.clean, metric).mean("row").at([])
largest = hooked.Circuit.of_cells(model, change.largest(4, "size"))
print()
print(hooked.run_circuits(model, [circuit, largest], **ablated).mean("row"))

# The circuit alone once more, as a set of places that are ablated.
rest = hooked.parts_besides(model, circuit.places(model))
alone = hooked.ablate(model, sets=[rest], sweep=ablated).mean("row").at([0])
print(f"\n{len(rest)} of {len(hooked.model_parts(model))} parts ablated: {alone:g}")
