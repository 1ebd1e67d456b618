"""Component, the base of a model's modules, and the norms."""

from typing import Any

import torch
from torch import nn

from hooked.transformer_lens.config import HookedTransformerConfig
from hooked.transformer_lens.errors import NotBridged
from hooked.transformer_lens.parameters import Weight, WeightHolder
from hooked.transformer_lens.upstream import HookPoint

_POST_NORM = ("Olmo2ForCausalLM", "Olmo3ForCausalLM")


def norms_outputs(cfg: HookedTransformerConfig) -> bool:
    """Whether ln1 and ln2 norm what a block writes, not what it reads."""
    return cfg.original_architecture in _POST_NORM


class Component(WeightHolder):
    """A part of a model."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self._passed_on: list[torch.Tensor] | None = None  # what a forward around this one passes on

    def forward(self, *given: Any, **more: Any) -> Any:
        if self._passed_on is not None and len(given) == 1:
            self._passed_on.append(given[0])
            return given[0]
        return self.compute(*given, **more)

    def compute(self, *_: Any, **__: Any) -> Any:
        """What this module makes of its input, by torch and through its own HookPoints."""
        raise NotBridged(
            type(self).__name__,
            "this module holds weights and HookPoints and computes nothing on its own",
            "run the model, with start_at_layer and stop_at_layer for a part of it",
        )

    def read_through(self, value: torch.Tensor) -> torch.Tensor:
        """What a forward that was put around this module's own makes it read instead of `value`."""
        self._passed_on = []
        try:
            made = self.forward(value)
            if len(self._passed_on) != 1 or made is not self._passed_on[0]:
                raise NotBridged(
                    type(self).__name__,
                    "its forward was replaced by one that does not only change what the module reads",
                    "edit activations by hooks, or put modules in the place of HookPoints",
                )
            return made
        finally:
            self._passed_on = None

    def _weight(self, name: str, *shape: int) -> None:
        """A matrix, to be filled."""
        setattr(self, name, Weight(torch.empty(*shape, dtype=self.cfg.dtype)))

    def _constant(self, name: str, value: float, *shape: int) -> None:
        setattr(self, name, Weight(torch.full(shape, value, dtype=self.cfg.dtype)))

    def _hooks(self, *names: str) -> None:
        for name in names:
            setattr(self, name, HookPoint())


class _Norm(Component):
    centred = True
    weighted = True
    biased = True

    def __init__(self, cfg: HookedTransformerConfig, length: int | None = None) -> None:
        super().__init__(cfg)
        self.eps = cfg.eps
        self.length = cfg.d_model if length is None else length
        if self.weighted:
            self._constant("w", 1.0, self.length)
            if self.biased:
                self._constant("b", 0.0, self.length)
        self._hooks("hook_scale", "hook_normalized")

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """The norm of `x` over its last axis, through this module's HookPoints."""
        wide = x if self.cfg.dtype in (torch.float32, torch.float64) else x.float()
        if self.centred:
            wide = wide - wide.mean(-1, keepdim=True)
        scale = self.hook_scale((wide.pow(2).mean(-1, keepdim=True) + self.eps).sqrt())
        normed = self.hook_normalized(wide / scale).to(self.cfg.dtype)
        if self.weighted:
            normed = normed * self.w
            if self.biased:
                normed = normed + self.b
        return normed


class LayerNorm(_Norm):
    """LayerNorm with weight and bias."""


class LayerNormPre(_Norm):
    """LayerNorm whose weight and bias are in the matrices that read it."""

    weighted = False


class RMSNorm(_Norm):
    """RMSNorm with weight."""

    centred = biased = False


class RMSNormPre(_Norm):
    """RMSNorm whose weight is in the matrices that read it."""

    centred = weighted = False


_NORMS: dict[str, type[_Norm]] = {"LN": LayerNorm, "LNPre": LayerNormPre, "RMS": RMSNorm, "RMSPre": RMSNormPre}


def norm(cfg: HookedTransformerConfig) -> nn.Module:
    """A norm of the blocks."""
    return nn.Identity() if cfg.normalization_type is None else _NORMS[cfg.normalization_type](cfg)


def final_norm(cfg: HookedTransformerConfig) -> _Norm:
    """The norm before the unembedding; the config has one."""
    kind = cfg.normalization_type or "LN"
    return _NORMS[kind.replace("LN", "RMS") if cfg.final_rms else kind](cfg)


def norm_after(cfg: HookedTransformerConfig) -> nn.Module:
    """A norm of what a block writes, next to the norms of what it reads."""
    kind = cfg.normalization_type  # these norms are never folded
    return nn.Identity() if kind is None else _NORMS[kind.removesuffix("Pre")](cfg)
