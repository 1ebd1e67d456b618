"""Compares SAELens on hooked.transformer_lens with SAELens on TransformerLens 3.9: the same model, the same dictionaries.

Usage: run_sae_lens.py [--packages FOLDER ...]

FOLDERs are where SAELens and what it imports are installed, if that is not this environment. Prints how many values were
compared and the largest difference.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from both import compare, with_values
from without_wandb import put_stub

put_stub()

SIZES: dict[str, Any] = dict(
    n_layers=2, d_model=16, d_head=4, n_heads=4, n_ctx=12, d_vocab=11, act_fn="gelu", dtype=torch.float64, seed=3
)
TOKENS = torch.tensor([[1, 4, 2, 8, 5, 7], [3, 1, 4, 1, 5, 9]])
PLACES = ("blocks.0.hook_resid_post", "blocks.1.attn.hook_z", "blocks.0.hook_mlp_out")


def write(value: torch.Tensor, hook: Any) -> torch.Tensor:
    """A hook that writes in place."""
    value[..., 3] = 2.0
    return value


def dictionary(place: str) -> Any:
    """A small random sparse autoencoder at a place."""
    from sae_lens import StandardSAE, StandardSAEConfig
    from sae_lens.saes.sae import SAEMetadata

    heads = "hook_z" if place.endswith("hook_z") else "none"
    sizes: dict[str, Any] = dict(d_in=16, d_sae=24, dtype="float64", device="cpu", reshape_activations=heads)
    return with_values(StandardSAE(StandardSAEConfig(**sizes, metadata=SAEMetadata(hook_name=place))), 0.4)


def transcoder() -> Any:
    """A small random transcoder over the second MLP."""
    from sae_lens import Transcoder, TranscoderConfig
    from sae_lens.saes.sae import SAEMetadata

    places = SAEMetadata(hook_name="blocks.1.mlp.hook_in", hook_name_out="blocks.1.hook_mlp_out")
    sizes: dict[str, Any] = dict(d_in=16, d_out=16, d_sae=24, dtype="float64", device="cpu", apply_b_dec_to_input=False)
    return with_values(Transcoder(TranscoderConfig(**sizes, metadata=places)), 0.4)


def values() -> dict[str, torch.Tensor]:
    """What is compared: logits, every cached activation, edits of features, gradients of dictionaries."""
    from sae_lens import HookedSAETransformer
    from transformer_lens import HookedTransformerConfig

    found: dict[str, torch.Tensor] = {}
    torch.manual_seed(1)
    model = with_values(HookedSAETransformer(HookedTransformerConfig(**SIZES)), 0.3)
    plain = model(TOKENS)
    for place, coder in [*((place, dictionary(place)) for place in PLACES), ("transcoder", transcoder())]:
        for error in (False, True):
            logits, cache = model.run_with_cache_with_saes(TOKENS, saes=[coder], use_error_term=error)
            found[f"{place} {error} logits"] = logits
            found |= {f"{place} {error} {name}": value for name, value in cache.items()}
        features = f"{place if place in PLACES else 'blocks.1.hook_mlp_out'}.hook_sae_acts_post"
        found[f"{place} edited"] = model.run_with_hooks_with_saes(TOKENS, saes=[coder], fwd_hooks=[(features, write)])
        model.add_sae(coder)
        model(TOKENS, return_type="loss").backward()
        found |= {f"{place} gradient {name}": weight.grad for name, weight in coder.named_parameters()}
        model.reset_saes()
        assert torch.equal(model(TOKENS), plain)
    found["mlp.hook_in"] = model.run_with_hooks(TOKENS, fwd_hooks=[("blocks.0.mlp.hook_in", write)])
    return {name: value.detach() for name, value in found.items()}


if __name__ == "__main__":
    sys.exit(compare(Path(__file__), __doc__, values, {torch.float64: 1e-9}))
