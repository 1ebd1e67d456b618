"""The pictures of docs/figures.md: figures.py [MODEL [FOLDER]]."""

import sys
from pathlib import Path

import torch

import hooked
from hooked import Grid, act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
clean = model.to_tokens("When John and Mary went to the shop, John gave a bag to")
corrupted = model.to_tokens("When John and Mary went to the shop, Mary gave a bag to")
run = model.run_with_cache(clean)

# Attention: shares, so the scale runs from 0; keys after the query stay blank.
hooked.attention_grid(model, run.cache, act.pattern(1)).save(folder / "attention.svg")

# Patching: what changes nothing is white, because the corrupted run's score is the centre.
metric = hooked.logit_difference(model.to_token(" Mary"), model.to_token(" John"))
before = metric.score(model, corrupted)
patched = hooked.sweep(
    model, site=act.resid_pre, over=["layer", "pos"], from_=run.cache, into=corrupted, metric=metric
)
patched.save(folder / "resid_pre.svg", centre=before.item())

# Any numbers: how alike the streams of two tokens are; the half above the diagonal says the same again.
stream = run.cache[act.resid_post(1)][0]  # [pos, d_model]
unit = stream / stream.norm(2, -1, True)
n_tokens = clean.shape[1]
alike = Grid(
    unit @ unit.T,
    [hooked.token_axis(model, clean), hooked.token_axis(model, clean, "other pos")],
    title="Streams after layer 1",
    unit="cosine",
)
upper = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
alike.save(folder / "cosine.svg", palette="PRGn", low=-1, high=1, blank=upper, cell=24)

# Lines: how likely " Mary" is to come next, read after each layer and at each token.
lens = hooked.logit_lens(model, run.cache, positions=[], tokens=[model.to_token(" Mary")])
after_layers = lens.probabilities.slice("row", 0).slice("token", 0)  # [point, pos]
(folder / "logit_lens.svg").write_text(hooked.line_plot_svg(after_layers))
