"""Activations of 500 prompts in one file, for NumPy."""

import sys
from pathlib import Path

import torch

import hooked

model = hooked.HookedTransformer.load(sys.argv[1] if len(sys.argv) > 1 else "examples/toy_model")
file = Path(sys.argv[2] if len(sys.argv) > 2 else ".") / "collected.safetensors"
prompts = ["When John and Mary went to the shop, John gave a bag to", "Then Mary"] * 250

# In batches, so that only what is kept stays in memory: one vector a prompt, not all positions.
streams = []
for first in range(0, len(prompts), 50):
    batch = prompts[first : first + 50]
    run = model.run(batch, capture="resid_post1", keep=hooked.KeepOptions(positions="last"), output="none")
    streams.append(run.cache["resid_post1"].squeeze(1))  # [batch, d_model]
everything = torch.cat(streams)
hooked.save_safetensors(
    file, {"resid_post1": everything}, metadata={"prompts": "each row is a prompt's last token"}
)
print(f'wrote {list(everything.shape)} to "{file}"')

# Read again, as another program would.
rows = hooked.load_safetensors(file)["resid_post1"]
farther = (rows[0] - rows[1]).norm() > (rows[0] - rows[2]).norm()
print(f"rows 0 and 1 differ {'more' if farther else 'less'} than rows 0 and 2, which are of the same prompt")
