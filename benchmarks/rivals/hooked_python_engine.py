"""hooked from Python: what the package adds to the same calls from C++."""
import time

import torch

begun = time.perf_counter()
import hooked  # noqa: E402

IMPORT_MS = 1e3 * (time.perf_counter() - begun)  # beyond torch's


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
        logits, cache = self.model.run_with_cache(tokens, None if points == "defaults" else points)
        return {"logits": logits, **cache}

    def hooks(self, tokens, called):
        """With a function that does nothing at each default point, or without."""
        hooks = [(hooked.act.defaults, lambda value: None)] if called else []
        return {"logits": self.model.run(tokens, hooks=hooks).logits}
