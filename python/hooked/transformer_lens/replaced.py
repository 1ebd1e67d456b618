"""Modules that replace an MLP or the unembedding: torch computes what they compute.

A module in the place of an MLP is called within the run of the engine, which has an MLP of zeros there; what it returns
takes the place of that MLP's output. It may call the module that was there, whose HookPoints then fire in torch, too.
With a module in the place of the unembedding the engine runs the blocks, and torch what comes after them.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hooked.transformer_lens import components
from hooked.transformer_lens.components import norms_outputs
from hooked.transformer_lens.config import HookedTransformerConfig


@dataclass(frozen=True)
class Replaceable:
    """A place whose module torch can compute, and the module that the engine has there."""

    modules: dict[str, nn.Module | None]  # of the module that has it
    attribute: str
    own: nn.Module
    made_with: frozenset[str]  # the names of its modules

    @staticmethod
    def of(parent: nn.Module, attribute: str) -> "Replaceable":
        own = parent._modules[attribute]
        assert own is not None
        return Replaceable(parent._modules, attribute, own, frozenset(own._modules))

    def added(self) -> list[nn.Module]:
        """The modules that the engine's got after it was made."""
        return [child for name, child in self.own._modules.items() if child is not None and name not in self.made_with]

    def wraps_reading(self) -> bool:
        """Whether a forward was put around the module's own for HookPoints that it got, as SAELens does."""
        return self.modules[self.attribute] is self.own and "forward" in vars(self.own) and bool(self.added())

    def is_replaced(self) -> bool:
        """Whether torch must compute it."""
        own = self.own
        if self.modules[self.attribute] is not own:
            return True
        if (
            own._forward_hooks or own._forward_pre_hooks or own._backward_hooks
        ):  # torch's, which the engine does not call
            return True
        return "forward" in vars(own) and not (self.attribute == "mlp" and self.added())


def places(model: Any, tail: bool) -> dict[str, Replaceable]:
    """The places of a model, the unembedding among them if torch can run what comes after the blocks."""
    found = {}
    for layer, block in enumerate(model.blocks):
        if "mlp" in block._modules:
            found[f"blocks.{layer}.mlp"] = Replaceable.of(block, "mlp")
    if tail:
        found["unembed"] = Replaceable.of(model, "unembed")
    return found


def outside(cfg: HookedTransformerConfig, names: tuple[str, ...]) -> tuple[str, ...]:
    """Beginnings of the names of points that torch computes where these modules were replaced."""
    norm = "ln2" if norms_outputs(cfg) else "ln2_post"
    begin: list[str] = []
    for name in names:
        begin += ["ln_final.", "unembed."] if name == "unembed" else [f"{name}.", f"{name.removesuffix('mlp')}{norm}."]
    return tuple(begin)


def without(
    cfg: HookedTransformerConfig, names: tuple[str, ...], all_mlps: bool
) -> tuple[HookedTransformerConfig, dict[str, torch.Tensor]]:
    """The config and the weights, zeros, with which the engine runs in the place of these modules: few if it can."""
    small = copy.copy(cfg)
    if all_mlps:
        small.d_mlp = 1
    if "unembed" in names:
        small.d_vocab_out = 1
    weights = {}
    for name in names:
        part = components.Unembed(small) if name == "unembed" else components.mlp(small)
        weights |= {
            f"{name}.{own}": torch.zeros(weight.shape, dtype=weight.dtype, device=cfg.device)
            for own, weight in part.named_parameters()
        }
    return small, weights


def hooks(
    cfg: HookedTransformerConfig, layer: int, block: Any, own: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor | None]]]:
    """Hooks that call what replaces a block's MLP. `own` makes the private copy that it reads."""
    written: list[torch.Tensor] = []

    def read(value: torch.Tensor) -> None:
        made = block.mlp(own(value))
        after = block.ln2 if norms_outputs(cfg) else block._modules.get("ln2_post")
        written.append(made if after is None else after(made))

    yield f"blocks.{layer}.mlp.hook_in", read
    yield f"blocks.{layer}.hook_mlp_out", lambda _: written.pop()
