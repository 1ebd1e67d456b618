"""The keys and values of earlier tokens, as the engine keeps them."""

from typing import Any

import torch

from hooked.transformer_lens.errors import NotBridged


class _Entry:
    """One layer's part of a cache."""

    def __getattr__(self, name: str) -> Any:
        raise NotBridged(
            f"past_kv_cache entry: {name}",
            "keys and values of single layers are in the engine's own form",
            "read blocks.*.attn.hook_k and hook_v from a cached run",
        )


class TransformerLensKeyValueCache:
    """What a forward pass with `past_kv_cache` continues from, and adds to unless it is frozen."""

    def __init__(self, n_layers: int, batch_size: int, device: Any) -> None:
        self.prefix: Any = None
        self.frozen = False
        self.entries = [_Entry() for _ in range(n_layers)]
        self.previous_attention_mask = torch.empty((batch_size, 0), dtype=torch.int, device=device)

    @classmethod
    def init_cache(cls, cfg: Any, device: Any, batch_size: int = 1) -> "TransformerLensKeyValueCache":
        """A cache without tokens."""
        return cls(cfg.n_layers, batch_size, device)

    def freeze(self) -> None:
        """Later passes add nothing."""
        self.frozen = True

    def unfreeze(self) -> None:
        """Later passes add their tokens again."""
        self.frozen = False

    def append_attention_mask(self, attention_mask: torch.Tensor) -> torch.Tensor:
        """The mask of the cached tokens and of these."""
        mask = torch.cat([self.previous_attention_mask, attention_mask.to(self.previous_attention_mask.device)], dim=-1)
        if not self.frozen:
            self.previous_attention_mask = mask
        return mask

    def __getitem__(self, layer: int) -> _Entry:
        return self.entries[layer]
