"""The forms in which arguments are given: where C++ converts what it is given, so does Python."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, Union

import torch

from hooked._hooked import (
    Activation,
    ActivationKind,
    ActivationName,
    Address,
    Edit,
    Hook,
    HookDirection,
    Input,
    LogitMetric,
    Selection,
    act,
)


class Array(Protocol):
    """What NumPy understands as an array."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...


AddressLike: TypeAlias = Union[Address, ActivationName, act.ModelSite, str, tuple[str, int], tuple[str, int, str]]
"""An activation or a block of it: `act.z(9).head(6)`, `"z9[head=6]"`, `("pattern", 5)`, `("k", 6, "a")`."""

NameLike: TypeAlias = AddressLike
"""An activation as a whole."""

_OneSelection: TypeAlias = Union[
    Selection,
    AddressLike,
    act.BlockSite,
    act.ExpertSite,
    act.Defaults,
    act.Everything,
    Callable[[ActivationName], bool],
]

SelectionLike: TypeAlias = Union[_OneSelection, Sequence[_OneSelection]]
"""Activations: `act.pattern | act.z(1)`, `"blocks.*.attn.hook_z"`, a list of these, a predicate of names."""

EditTargetLike: TypeAlias = SelectionLike
"""Where an edit applies."""

EditsLike: TypeAlias = Union[Edit, Sequence[Union[Edit, Sequence[Edit]]]]
"""One edit or several."""

HookFunction: TypeAlias = Union[
    Callable[[torch.Tensor], Union[torch.Tensor, None]], Callable[..., Union[torch.Tensor, None]]
]
"""A function of the activation, or also of its name, or also of its HookStep; what it returns replaces the activation."""

HookLike: TypeAlias = Union[
    Hook, tuple[SelectionLike, HookFunction], tuple[SelectionLike, HookFunction, Union[HookDirection, str]]
]
"""A function and where to call it: `(act.z(1), function)`."""

HooksLike: TypeAlias = Union[HookLike, Sequence[HookLike]]
"""One hook or several."""

OneInputLike: TypeAlias = Union[Input, str, torch.Tensor, Sequence[int], Sequence[Sequence[int]], Array]
"""A text or token ids."""

InputLike: TypeAlias = Union[OneInputLike, Sequence[str]]
"""What a model reads: a text, several texts (padded to one length), token ids, or an Input."""

LogitMetricLike: TypeAlias = Union[LogitMetric, Callable[[torch.Tensor], torch.Tensor]]
"""A function from logits [batch, positions, vocab] to one number."""

IndexLike: TypeAlias = Union[int, slice, Sequence[int], str]
"""Indices on an axis: a number, a range, a list, or `"last"`: each row's last real token."""

DevicesLike: TypeAlias = Union[str, torch.device, Sequence[Union[str, torch.device]]]
"""`"cpu"`, `"cuda:1"`, `torch.device("cuda")`, or several."""

ActivationLike: TypeAlias = Union[Activation, ActivationKind, str]
"""An activation function, by its name in config files: `"gelu_new"`."""
