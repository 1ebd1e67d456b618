"""What heads attend to, how well the model repeats, and prompts that ask for an indirect object.

See docs/analysis/heads.md.
"""

import sys
from pathlib import Path

import torch
from indirect_object import indirect_object_pairs

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")

# Random tokens, repeated once, show induction heads: [layer, head].
repeated = hooked.repeated_tokens_of(model)
repeated.seed = 3
tokens = hooked.repeated_random_tokens(repeated)
cache = model.run_with_cache(tokens, act.pattern).cache
induction = hooked.head_scores(cache, "induction", tokens=tokens)
best = induction.largest(1)[0]
print(induction)
print(f"head {best.labels[0]}.{best.labels[1]} looks there")
induction.save(folder / "induction.svg")

# Where it looks otherwise: without the first token, where heads rest, and how far away.
print(hooked.head_scores(cache, "previous_token", exclude_bos=True))
print(hooked.head_scores(cache, "distance", exclude_bos=True))

# A pattern of your own: the last two tokens, and TransformerLens's measure.
size = tokens.shape[1]
two_back = torch.ones(size, size).tril(-1).triu(-2)  # [query, key]
print(hooked.head_scores(cache, two_back, measure="mul"))

# What those heads are good for: loss and accuracy of the first half and of the second.
said_twice = hooked.repetition_scores(model, repeated)
print(said_twice.loss.mean("row"))
print(said_twice.accuracy.mean("row"))

# Prompts that ask who gets something, with names that this model's tokenizer has as one token.
pairs = indirect_object_pairs(model, count=16, seed=1)
print(f"{pairs.pairs[0].clean} ...")
metric = hooked.logit_difference(pairs.answers(), pairs.against())
print(hooked.scores(model, pairs.clean, metric).mean("row"))
run = model.run_with_cache(pairs.clean, act.pattern)
again = hooked.head_scores(run.cache, "duplicate_token", tokens=pairs.clean.tokens)
hooked.write_prompt_pairs(folder / "indirect_object.jsonl", pairs.pairs)
print(again)
