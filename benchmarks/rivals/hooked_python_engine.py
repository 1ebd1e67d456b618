"""hooked from Python: what the package adds to the same calls from C++."""
import tempfile
import time

import torch

from .later import Later
from .questions import HARVEST_ROWS

begun = time.perf_counter()
import hooked  # noqa: E402

IMPORT_MS = 1e3 * (time.perf_counter() - begun)  # beyond torch's


class Run:
    """A result as the engine returns it, which is what rival_runner.cc times: nobody reads activations unless told to."""

    def __init__(self, result, read: bool = False):
        self.result = result
        self.activations = list(result.cache.values()) if read else []

    def items(self):
        return {"logits": self.result.logits, **self.result.cache}.items()


class Engine:
    packages = ()  # its version is hooked's

    def __init__(self, folder: str, dtype: torch.dtype, context: int, device: str):
        del context
        self.model = hooked.HookedTransformer.load(folder, dtype=dtype, device=device, processing=hooked.WeightProcessing.none())
        points = len(self.model.run_with_cache([0]).cache)
        self.about = {"import_ms": IMPORT_MS, "default_points": points}

    def forward(self, tokens):
        return {"logits": self.model.run(tokens).logits}

    def cache(self, tokens, points):
        return Run(self.model.run_with_cache(tokens, None if points == "defaults" else points))

    def read_cache(self, tokens):
        return Run(self.model.run_with_cache(tokens), read=True)

    def until(self, tokens, layer):
        """The runs of a harvest, and nothing kept."""
        for rows in tokens.split(HARVEST_ROWS):
            stream = self.model.run(rows, stop_at_layer=layer, output="residual").residual
        return {"last": stream}

    def store(self, tokens, layer):
        name = f"blocks.{layer - 1}.hook_resid_post"
        batch, length = tokens.shape
        folder = tempfile.TemporaryDirectory()
        hooked.harvest(self.model, tokens.tolist(), out=folder.name, names=name, contexts={"length": length},
                       batch_tokens=HARVEST_ROWS * length, unit_tokens=4096)  # of a long corpus, only the last unit is waited for

        def read():
            rows = hooked.ActivationStore.open(folder.name).read(0, batch * length)
            return {name: rows.activations[name].view(batch, length, -1)}

        return Later(read, folder)

    def hooks(self, tokens, called):
        """With a function that does nothing at each default point, or without."""
        hooks = [(hooked.act.defaults, lambda value: None)] if called else []
        return {"logits": self.model.run(tokens, hooks=hooks).logits}
