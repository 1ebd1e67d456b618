"""What the stream predicts at every layer and token, and which parts wrote an answer."""

import sys
from pathlib import Path

import hooked
from hooked import Answers

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
batch = [
    "When John and Mary went to the shop, John gave a bag to",
    "Then Mary and John went to the park, and Mary gave a book to",
]
mary, john = model.to_token(" Mary"), model.to_token(" John")
run = model.run_with_cache(batch)

# The likeliest tokens at each row's last token, and the probability of two tokens everywhere.
print(hooked.logit_lens(model, run.cache, top_k=2))
lens = hooked.logit_lens(model, run.cache, positions=[], tokens=[mary, john])
picture = lens.probabilities.slice("row", 1).slice("token", 1)  # [point, pos]
picture.save(folder / "lens.svg")

# Each row has an answer of its own; a part that is an activation has its address.
parts = hooked.direct_logit_attribution(
    model, run.cache, answer=Answers.by_row([mary, john]), against=Answers.by_row([john, mary]), grain="head"
)
for part in parts.mean("row").largest(3):
    place = f", {part.place}" if part.place else ""
    print(f"{part.labels[0]} {part.value:g} logits{place}")
