"""What the tests of the Python package share."""

import signal
import types
from collections.abc import Iterator
from pathlib import Path

import hooked
import pytest
import torch
from upstream.without_wandb import put_stub

ROOT = Path(__file__).resolve().parents[2]
TOY_MODEL = ROOT / "examples" / "toy_model"

# A shell starts what runs in its background with Ctrl-C ignored, and Python leaves that so.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def model() -> hooked.HookedTransformer:
    """The trained model of the examples."""
    return hooked.HookedTransformer.load(str(TOY_MODEL))


@pytest.fixture(scope="session")
def tiny() -> hooked.HookedTransformer:
    """Fresh weights in float64, for gradients."""
    return hooked.HookedTransformer.create(
        hooked.ModelConfig(
            n_layers=2,
            d_model=8,
            n_ctx=16,
            n_heads=2,
            n_kv_heads=2,
            d_head=4,
            d_mlp=16,
            d_vocab=11,
            unembedding={"d_vocab": 11},
            activation="gelu",
        ),
        seed=3,
        dtype=torch.float64,
    )


@pytest.fixture
def sae_lens() -> Iterator[types.ModuleType]:
    """SAELens. Its training takes signals for itself and does not give them back."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    put_stub()
    yield pytest.importorskip("sae_lens")
    for each, handler in handlers.items():
        signal.signal(each, handler)
