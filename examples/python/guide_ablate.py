"""Keep what a run computed, look at an attention pattern, and switch heads off one by one."""

import sys

import torch

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
prompt = "When John and Mary went to the shop, John gave a bag to"
answer = model.to_token(" Mary")


def probability(logits: torch.Tensor) -> float:  # of the answer after the last token
    return logits[0, -1].softmax(-1)[answer].item()


logits, cache = model.run_with_cache(prompt, "pattern")
print(f"the answer has probability {probability(logits):g}")

# What head 3 of layer 1 looks at from the last token, strongest first.
words = model.to_str_tokens(model.to_tokens(prompt))
weights, keys = cache["pattern1[head=3,pos=last]"][0].topk(3)
for weight, key in zip(weights.tolist(), keys.tolist()):
    print(f"  head 1.3 looks at '{words[key]}' with {weight:g}")

for layer in range(model.config.n_layers):
    for head in range(model.config.n_heads):
        without = model.run(prompt, edits=hooked.zero(act.z(layer).head(head)))
        print(f"without head {layer}.{head}: {probability(without.logits):g}")
