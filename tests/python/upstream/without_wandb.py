"""SAELens without wandb, the service that it can log to: a large package, which its training does not need."""

import importlib.machinery
import sys
import types


def put_stub() -> None:
    """An empty module in wandb's place, if it is not installed."""
    if importlib.machinery.PathFinder.find_spec("wandb") is None:
        stub = types.ModuleType("wandb")
        stub.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
        sys.modules["wandb"] = stub
