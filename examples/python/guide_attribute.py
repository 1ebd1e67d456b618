"""Where does a prediction come from? What each head wrote to a logit difference, and when the answer appears."""

import sys

import hooked

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
run = model.run_with_cache("When John and Mary went to the shop, John gave a bag to")

# [row, part, pos]: what each part wrote to the logit difference at the last token.
parts = hooked.direct_logit_attribution(
    model, run.cache, answer=model.to_token(" Mary"), against=model.to_token(" John"), grain="head"
)
for part in parts.largest(5, "size"):
    print(f"{part.labels[1]}  {part.value:g} logits")
print(f"all parts together  {parts.values.sum().item():g} logits\n")

# The stream after each block, read as if it were the last one.
print(hooked.logit_lens(model, run.cache, top_k=3))
