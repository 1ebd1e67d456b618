"""Weights as parameters of torch, which the engine only reads."""

from typing import Any

import torch
from torch import nn

from hooked.transformer_lens.errors import NotBridged


class Weight(nn.Parameter):
    """A parameter that counts each use of `.data` as a write, because writes through it cannot be seen.

    After a backward pass through a run `grad` raises: None, or a part, would pass for the gradient.
    """

    _was_asked = False  # whether a backward pass wanted its gradient

    @property
    def grad(self) -> torch.Tensor | None:  # type: ignore[override]
        if self._was_asked:
            raise NotBridged(
                "grad",
                "gradients of weights are not computed",
                "train with hooked.TrainableTransformer, or model.requires_grad_(False) if only hooks learn",
            )
        found: torch.Tensor | None = torch.Tensor.grad.__get__(self)  # type: ignore[attr-defined]
        return found

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        self._was_asked = False
        torch.Tensor.grad.__set__(self, value)  # type: ignore[attr-defined]

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        torch.autograd.graph.increment_version(self)
        return torch.Tensor.data.__get__(self)  # type: ignore[attr-defined]

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        torch.autograd.graph.increment_version(self)


class WeightHolder(nn.Module):
    """A module with weights whose gradient may have been asked for; torch itself looks at `grad` here."""

    def _forget_asked(self) -> None:
        for weight in self.parameters():
            if isinstance(weight, Weight):
                weight._was_asked = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As in torch."""
        self._forget_asked()
        super().zero_grad(set_to_none)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._forget_asked()
        return super()._apply(fn, recurse)
