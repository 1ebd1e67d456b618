"""The keys and values of earlier tokens."""

from dataclasses import dataclass, field
from typing import Any

import torch

from hooked.transformer_lens.errors import NotBridged


@dataclass
class _Entry:
    """One layer's keys and values before rotary, for reading; the engine has its own."""

    empty: torch.Tensor  # [batch, 0, kv_head, d_head]
    normed: bool  # keys pass a norm, which hook_k is before
    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)

    @property
    def past_keys(self) -> torch.Tensor:
        """[batch, pos, kv_head, d_head]."""
        if self.normed:
            raise NotBridged(
                "past_keys", "normed keys are not kept", "read attn.k_norm.hook_normalized from a cached run"
            )
        return torch.cat([self.empty, *self.keys], dim=1)

    @property
    def past_values(self) -> torch.Tensor:
        """[batch, pos, kv_head, d_head]."""
        return torch.cat([self.empty, *self.values], dim=1)


class TransformerLensKeyValueCache:
    """What a forward pass with `past_kv_cache` continues from, and adds to unless it is frozen."""

    def __init__(self, entries: list[_Entry], previous_attention_mask: torch.Tensor) -> None:
        self.prefix: Any = None  # the engine's
        self.frozen = False
        self.entries = entries
        self.previous_attention_mask = previous_attention_mask

    @classmethod
    def init_cache(cls, cfg: Any, device: Any, batch_size: int = 1) -> "TransformerLensKeyValueCache":
        """A cache without tokens."""
        empty = torch.empty(
            batch_size, 0, cfg.n_key_value_heads or cfg.n_heads, cfg.d_head, dtype=cfg.dtype, device=device
        )
        normed = cfg.use_qk_norm or (cfg.original_architecture or "").startswith(("Olmo2", "Olmo3", "Olmoe"))
        mask = torch.empty((batch_size, 0), dtype=torch.int, device=device)
        return cls([_Entry(empty, normed) for _ in range(cfg.n_layers)], mask)

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
