"""Directions: a probe at every layer, its interval, steering along it, and its file."""

import sys
from pathlib import Path

import torch

import hooked
from hooked import act

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")

# Can the name that is there twice be read from the stream of the last token?
john = model.to_tokens("When John and Mary went to the shop, John gave a bag to")
mary = model.to_tokens("When Mary and John went to the shop, Mary gave a bag to")
rows = torch.cat([john, mary]).repeat(20, 1)
labels = torch.arange(len(rows)) % 2

report = hooked.fit_probes(
    model,
    rows,
    labels,
    at={"of": act.resid_pre | act.resid_post, "progress": False},
    method="ridge",
    classes=["John", "Mary"],
)
print(report.accuracy)  # [point, pos]: the share of held-out rows, with Wilson's interval

probe = report.probes[-1]
before = probe.measure().score(model, john)
after = probe.measure().score(model, john, edits=probe.steer(model, 2))
print(f"steering by 2 moves the measure by {(after - before).item():.6g}")

probe.save(folder / "names.safetensors")
again = hooked.Probe.load(folder / "names.safetensors")
print(f"{again.facts.method} at {again.place}, {again.position}")
