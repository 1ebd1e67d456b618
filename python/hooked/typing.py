"""The forms in which arguments are given: where C++ converts what it is given, so does Python."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, Union

import torch

from hooked._hooked import (
    Activation,
    ActivationCache,
    ActivationKind,
    ActivationName,
    Address,
    Answers,
    BoundMetric,
    CircuitEdge,
    Dictionary,
    DictionarySet,
    Edit,
    FeatureIntervention,
    GraphDirection,
    GraphEdge,
    GraphFeatures,
    GridAxis,
    HarvestProgress,
    HeadPlace,
    Hook,
    HookDirection,
    Input,
    LogitMetric,
    Metric,
    MetricInput,
    PatchingPreset,
    PatchSource,
    PlaceOfPair,
    Position,
    RunMetric,
    Selection,
    SweepProgress,
    SweptAxis,
    SweptPlace,
    SweptSite,
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
    act.DictionarySite,
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
"""A function of the activation, or also of its name and its HookStep; what it returns replaces the activation."""

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

LogitMetricLike: TypeAlias = Union[LogitMetric, Metric, BoundMetric, Callable[[torch.Tensor], torch.Tensor]]
"""A function from logits [batch, positions, vocab] to one number."""

IndexLike: TypeAlias = Union[int, slice, Sequence[int], str]
"""Indices on an axis: a number, a range, a list, or `"last"`: each row's last real token."""

DevicesLike: TypeAlias = Union[str, torch.device, Sequence[Union[str, torch.device]]]
"""`"cpu"`, `"cuda:1"`, `torch.device("cuda")`, or several."""

ActivationLike: TypeAlias = Union[Activation, ActivationKind, str]
"""An activation function, by its name in config files: `"gelu_new"`."""

MetricLike: TypeAlias = Union[Metric, Callable[[torch.Tensor], torch.Tensor]]
"""A score, or a function from logits [row, position, vocab] at each row's last token to [row]."""

RunMetricLike: TypeAlias = Union[RunMetric, BoundMetric, dict[str, Any]]
"""A function of a run's output and activations to one number."""

ScoreFunction: TypeAlias = Callable[[MetricInput], torch.Tensor]
"""A function of what a metric reads to one number per row."""

PositionLike: TypeAlias = Union[Position, int, str, tuple[str, list[int]]]
"""A column, `"last"`, or a named place with each row's column: `("giver", [10, 12])`."""

AnswersLike: TypeAlias = Union[Answers, int, str]
"""A token in every row, by its id or its text."""

HeadPlaceLike: TypeAlias = Union[HeadPlace, tuple[int, int], dict[str, Any]]
"""A head: `(layer, head)`."""

PlaceOfPairLike: TypeAlias = Union[PlaceOfPair, tuple[Union[int, str], Union[int, str]], dict[str, Any]]
"""A place in both prompts of a pair, as indices or texts: `(10, 10)`, `("shop", "park")`."""

CircuitEdgeLike: TypeAlias = Union[CircuitEdge, tuple[str, str], dict[str, Any]]
"""A writer and a reader: `("head 0.1", "head 1.3 q")`."""

GraphFeaturesLike: TypeAlias = Union[GraphFeatures, DictionarySet, Sequence[Dictionary]]
"""What replaces the MLPs: transcoders, or `GraphFeatures.neurons()`."""

GraphEdgeLike: TypeAlias = Union[GraphEdge, tuple[int, int], dict[str, Any]]
"""An edge of a graph, by its nodes: `(source, target)`."""

GraphDirectionLike: TypeAlias = Union[GraphDirection, tuple[str, torch.Tensor], dict[str, Any]]
"""Another target than logits: `("Mary - John", direction)`."""

FeatureInterventionLike: TypeAlias = Union[FeatureIntervention, tuple[int, int, int, float], dict[str, Any]]
"""A feature and its new value: `(layer, position, feature, value)`."""

GridAxisLike: TypeAlias = Union[GridAxis, tuple[str, Sequence[str]], dict[str, Any]]
"""An axis and its labels: `("layer", ["0", "1"])`."""

PatchSourceLike: TypeAlias = Union[PatchSource, ActivationCache]
"""What patched places become; a cache is the values of another run."""

PresetLike: TypeAlias = Union[PatchingPreset, str]
"""A named sweep: `"attn_head_out_all_pos"`."""

SweptSiteLike: TypeAlias = Union[SweptSite, act.BlockSite, act.ExpertSite, act.DictionarySite]
"""A kind of activation: `act.z`."""

SweptPlaceLike: TypeAlias = Union[SweptPlace, PositionLike, tuple[PositionLike, PositionLike]]
"""A place on an axis; of two, the first is in the run that is patched, the second in the one that values come from."""

SweptAxisLike: TypeAlias = Union[SweptAxis, str, tuple[str, Sequence[SweptPlaceLike]]]
"""An axis, or some places on it: `"layer"`, `("head", [0, 3])`."""

ProgressLike: TypeAlias = Union[Callable[[SweepProgress], Union[bool, None]], bool]
"""Called between steps, and ends the work by returning False; False instead of a function shows nothing, None a bar."""

HarvestProgressLike: TypeAlias = Union[Callable[[HarvestProgress], Union[bool, None]], bool]
"""The same for a harvest."""

LoadProgressLike: TypeAlias = Union[Callable[[int, int], object], bool]
"""A function of the bytes that are done and all bytes; False: show nothing. By default a bar."""
