"""Runs of the engine for a tree of modules: weights from its parameters, hooks from its HookPoints.

Hooks of TransformerLens may write in place and stay attached; the engine allows neither. So each HookPoint with hooks
(or a module that was put in its place) becomes one hook of the run, which gets a private copy of the activation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

import hooked
from hooked.transformer_lens import replaced
from hooked.transformer_lens.components import Component, norms_outputs
from hooked.transformer_lens.config import HookedTransformerConfig, for_engine
from hooked.transformer_lens.errors import NotBridged
from hooked.transformer_lens.parameters import Weight, WeightHolder
from hooked.transformer_lens.upstream import HookedRootModule, HookPoint

# Switches of the config, and the points that are computed only with them.
SWITCHES = {
    "hook_result": "use_attn_result",
    "hook_q_input": "use_split_qkv_input",
    "hook_k_input": "use_split_qkv_input",
    "hook_v_input": "use_split_qkv_input",
    "hook_mlp_in": "use_hook_mlp_in",
    "hook_attn_in": "use_attn_in",
}
_EXITS = ("ln_final", "unembed", "mlm_head")


class _NoWeightGradients(torch.autograd.Function):
    """The identity of an output, which also depends on weights, of whose gradients there are none."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        ctx.weights = weights
        return output.detach()  # unlike a view, it may be written in place

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if not ctx.needs_input_grad[0]:
            raise NotBridged(
                "backward",
                "gradients of weights are not computed, and nothing else in this run asked for any",
                "train with hooked.TrainableTransformer; for gradients of activations attach a hook before the run",
            )
        for weight in ctx.weights:
            if isinstance(weight, Weight):
                weight._was_asked = True
        return *gradients, *[None] * len(ctx.weights)


@dataclass
class Capture:
    """What run_with_cache wants of the next run, and what the run gave."""

    names: list[str]
    found: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Point:
    """A HookPoint's place in the tree, and the engine's activation there."""

    modules: dict[str, nn.Module | None]  # of the module that has it
    attribute: str
    engine_name: str
    layer: int | None  # None: before the first block, or after the last
    is_exit: bool

    @property
    def module(self) -> nn.Module:
        found = self.modules[self.attribute]
        assert found is not None
        return found


def _hook_points(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module, str]]:
    for name, child in module._modules.items():
        if isinstance(child, HookPoint):
            yield prefix + name, module, name
        elif child is not None:
            yield from _hook_points(child, f"{prefix}{name}.")


def _has_hooks(module: nn.Module) -> bool:
    """Whether a run must call what stands at a point."""
    return (
        type(module) is not HookPoint
        or bool(module._forward_hooks)
        or bool(module._backward_hooks)
        or bool(module._forward_pre_hooks)
    )


class EngineModel(WeightHolder, HookedRootModule):
    """A tree of modules that the engine runs."""

    cfg: HookedTransformerConfig
    _parts: tuple[str, ...] = ()  # children that are the model; others are the user's
    _group: dict[str, Any] = {}  # what the engine must know besides the config
    _has_tail = False  # whether this class can run what comes after the blocks by torch
    _replaceable: dict[str, replaced.Replaceable] = {}

    def _bind(self) -> None:
        """To be called when the modules are made, and when norms were replaced."""
        self._capture: Capture | None = None
        self._made: tuple[Any, hooked.HookedTransformer] | None = None
        if not self._replaceable:  # new norms do not change them
            self._replaceable = replaced.places(self, self._has_tail)
        self._places: dict[str, _Point] = {}
        for name, parent, attribute in _hook_points(self):
            place = self._replaceable.get(name.rpartition(".")[0])
            if place is not None and attribute not in place.made_with:
                continue  # the user's
            where = name.split(".")
            in_block = where[0] == "blocks"
            self._places[name] = _Point(
                modules=parent._modules,
                attribute=attribute,
                engine_name=self._engine_name(name),
                layer=int(where[1]) if in_block else None,
                is_exit=where[0] in _EXITS,
            )

    def _engine_name(self, name: str) -> str:
        """The engine's name for a point or a weight."""
        if norms_outputs(self.cfg):
            return name.replace(".ln1.", ".ln1_post.").replace(".ln2.", ".ln2_post.")
        return name

    # Weights.

    def _weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The parameters that the engine runs with."""
        for part in self._parts:
            module = self._modules.get(part)
            if module is not None:
                yield from self._weights_of(module, part)

    def _replaced(self) -> tuple[str, ...]:
        """The modules that torch computes, since they are not the engine's any more."""
        return tuple(name for name, place in self._replaceable.items() if place.is_replaced())

    def _weights_of(self, module: nn.Module, name: str) -> Iterator[tuple[str, torch.Tensor]]:
        if name in self._replaceable and self._replaceable[name].is_replaced():
            return
        if isinstance(module, Component):
            if "forward" in module.__dict__ and not name.endswith(".mlp"):
                raise NotBridged(
                    name, "its forward was replaced, which the engine does not call", "edit its activations by hooks"
                )
        elif not isinstance(module, nn.ModuleList | nn.Identity):
            raise NotBridged(
                name,
                f"it was replaced by a {type(module).__name__}, which the engine does not call",
                "put modules in the place of an MLP, of the unembedding or of HookPoints, such as hook_attn_out, or edit "
                "activations by hooks",
            )
        for own, weight in module._parameters.items():
            if weight is not None:
                yield f"{name}.{own}", weight
        for own, child in module._modules.items():
            if child is not None and not own.startswith("hook_"):
                yield from self._weights_of(child, f"{name}.{own}")

    def engine(self, processing: Any = None) -> hooked.HookedTransformer:
        """The engine's model of the present weights. It is made anew after a parameter was written or replaced."""
        weights = dict(self._weights())
        ungroup = self.cfg.ungroup_grouped_query_attention and self.cfg.n_key_value_heads is not None
        names = self._replaced()
        if processing is not None:
            if names:
                raise NotBridged(
                    "processing", f"{', '.join(names)} was replaced", "process the weights before modules are replaced"
                )
            return self._make(weights, False, processing)
        state = (ungroup, names, [(id(weight), weight._version, weight.data_ptr()) for weight in weights.values()])
        if self._made is None or self._made[0] != state:
            with torch.inference_mode(False):  # whatever the mode now, later runs may need gradients
                self._made = (state, self._make(weights, ungroup, hooked.WeightProcessing.none()))
            begin = replaced.outside(self.cfg, names)
            self._outside = {name for name in self._places if name.startswith(begin)}
            self._alive = {
                name: place for name, place in self._places.items() if name not in self._outside and self._exists(place)
            }
            self._selections: dict[tuple[str, ...], hooked.Selection] = {}
        return self._made[1]

    def _exists(self, place: _Point) -> bool:
        assert self._made is not None
        return place.engine_name in self._names_of(self._made[1])

    @staticmethod
    def _names_of(engine: hooked.HookedTransformer) -> set[str]:
        names: set[str] | None = getattr(engine, "_as_text", None)
        if names is None:
            names = engine._as_text = {str(name) for name in engine.names}
        return names

    def _make(self, weights: dict[str, torch.Tensor], ungroup: bool, processing: Any) -> hooked.HookedTransformer:
        repeats = self.cfg.n_heads // (self.cfg.n_key_value_heads or self.cfg.n_heads)
        names = self._replaced()
        mlps = {name for name in self._replaceable if name != "unembed"}
        cfg, state = replaced.without(self.cfg, names, mlps <= set(names)) if names else (self.cfg, {})
        for name, weight in weights.items():
            if name == "pos_embed.W_pos" and self.cfg.positional_embedding_type == "alibi":
                continue  # TransformerLens has it there, too, and does not read it
            value = weight.detach()
            if ungroup and name.rpartition(".")[2] in ("_W_K", "_W_V", "_b_K", "_b_V"):
                name, value = name.replace("._", "."), value.repeat_interleave(repeats, dim=0)
            if ungroup and name.endswith("k_norm.w") and not self.cfg.use_qk_norm:
                value = value.view(-1, self.cfg.d_head).repeat_interleave(repeats, dim=0).flatten()
            state[self._engine_name(name)] = value
        return hooked.HookedTransformer.from_state_dict(
            state, for_engine(cfg, self._group, ungroup), device=str(self.cfg.device), processing=processing
        )

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        first = next((weight for _, weight in self._weights()), None)
        if first is not None:  # to(), double(), cuda() change the model
            self.cfg.dtype, self.cfg.device = first.dtype, str(first.device)
        return self

    def load_state_dict(self, state_dict: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        """As in torch. Tensors that TransformerLens stores besides weights (masks, tables) are left unread."""
        buffers = ("mask", "IGNORE", "rotary_sin", "rotary_cos", "alibi")
        read = {key: value for key, value in state_dict.items() if key.rpartition(".")[2] not in buffers}
        return super().load_state_dict(read, *args, **kwargs)

    # Runs.

    def _reached(self, layers: range | None, entry: bool, ends: bool) -> Iterator[tuple[str, _Point]]:
        """The points that a run through these parts computes, with the switches as they are."""
        off = {last for last, switch in SWITCHES.items() if not getattr(self.cfg, switch)}
        for name, place in self._alive.items():
            if place.attribute in off:
                continue
            if ends if place.is_exit else entry if place.layer is None else layers is None or place.layer in layers:
                yield name, place

    def _run(
        self,
        given: Any,
        *,
        output: str,
        layers: range | None = None,
        entry: bool = True,
        ends: bool = True,
        learn: bool = False,
        also: Sequence[str] = (),
        **options: Any,
    ) -> hooked.RunResult:
        """Runs the engine with the hooks of the points that are reached, and fills the capture that waits.

        The result's cache has the engine's activations `also` besides.
        """
        engine = self.engine()
        reached = dict(self._reached(layers, entry, ends))
        if output == "none":  # nothing reads the logits
            reached = {name: place for name, place in reached.items() if not name.startswith("unembed.")}
        before, after = list(self._replaced_mlps(layers)), list(self._wrapped_readers(layers))
        with_hooks = {name: place for name, place in reached.items() if _has_hooks(place.module)}
        learn = torch.is_grad_enabled() and (learn or bool(with_hooks or before or after))
        calls: list[tuple[str, Callable[[torch.Tensor], torch.Tensor | None]]] = []
        if learn and entry and any(weight.requires_grad for _, weight in self._weights()):
            leaves = [name for name in ("hook_embed", "hook_pos_embed", "hook_full_embed") if name in reached]
            calls += [(name, _as_leaf) for name in leaves]
        calls += before
        calls += [(place.engine_name, partial(self._at, name, place.module)) for name, place in with_hooks.items()]
        calls += after
        if torch.is_inference_mode_enabled():
            calls = [(name, partial(_inferring, call)) for name, call in calls]
        hooks = [hooked.Hook(name, call) for name, call in calls]
        capture, self._capture = self._capture, None
        wanted = {reached[name].engine_name: name for name in capture.names if name in reached} if capture else {}
        if wanted or also:
            options["capture"] = self._selection(tuple(dict.fromkeys([*wanted, *also])))
        # What the engine makes in one run and keeps for others must serve gradients, too, so never in inference mode.
        with torch.inference_mode(False), torch.set_grad_enabled(learn):
            result = engine.run(given, hooks=hooks, output=output, differentiable=learn, **options)
        if capture is not None:
            for engine_name, value in result.cache.items():
                if (name := wanted.get(engine_name)) is not None:
                    capture.found[name] = self._theirs(name, value.detach())
        return result

    def _wrapped_readers(
        self, layers: range | None
    ) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor | None]]]:
        """Hooks for MLPs whose forward was wrapped by one that changes what they read."""
        for layer, block, place in self._mlps(layers):
            if not place.wraps_reading() or not any(_has_hooks(point) for point in place.added()):
                continue
            norm = block.ln2 if isinstance(block.ln2, Component) and self._reads_through_ln2() else None
            name = f"blocks.{layer}.hook_mlp_in" if norm is None else f"blocks.{layer}.ln2.hook_normalized"
            yield name, partial(_read_through, block.mlp, norm)

    def _replaced_mlps(
        self, layers: range | None
    ) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor | None]]]:
        """Hooks that call what replaces MLPs."""
        for layer, block, place in self._mlps(layers):
            if place.is_replaced():
                yield from replaced.hooks(self.cfg, layer, block, _private)

    def _mlps(self, layers: range | None) -> Iterator[tuple[int, Any, replaced.Replaceable]]:
        """The layers that have an MLP, their blocks, and the places of those MLPs."""
        for layer, block in enumerate(self._modules["blocks"] or []):
            place = self._replaceable.get(f"blocks.{layer}.mlp")
            if place is not None and (layers is None or layer in layers):
                yield layer, block, place

    def _reads_through_ln2(self) -> bool:
        return not norms_outputs(self.cfg) and self._group.get("norm_place") != "post"

    def _selection(self, names: tuple[str, ...]) -> hooked.Selection:
        if names not in self._selections:
            self._selections[names] = hooked.Selection(list(names))
        return self._selections[names]

    def _at(self, name: str, module: nn.Module, value: torch.Tensor) -> torch.Tensor | None:
        """Calls what stands at a point."""
        given = self._theirs(name, _private(value))
        version = given._version
        made = module(given)
        # What a hook was given may be kept by it, for gradients that lead through it.
        if made is given and given._version == version and not given.requires_grad:
            return None
        return made.reshape(value.shape) if made.numel() == value.numel() else made

    def _theirs(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """The value in TransformerLens's shape."""
        if ".hook_expert_" in name:
            return value.flatten(0, 1)
        if ".q_norm." in name or ".k_norm." in name:
            return value.flatten(0, 2) if self.cfg.use_qk_norm else value.flatten(2, 3)
        return value

    def _sealed(self, output: torch.Tensor) -> torch.Tensor:
        """An output that requires gradients, as with TransformerLens, and says that there are none for weights."""
        weights = [w for _, w in self._weights() if w.requires_grad] if torch.is_grad_enabled() else []
        sealed: torch.Tensor = _NoWeightGradients.apply(output, *weights) if weights else output
        return sealed


def _read_through(mlp: Component, norm: Any, value: torch.Tensor) -> torch.Tensor | None:
    """What ln2's normalized value, or the MLP's input without one, becomes by the forward around the MLP's own."""
    weight, bias = getattr(norm, "w", None), getattr(norm, "b", None)
    read = value.clone() if weight is None else value * weight + (0 if bias is None else bias)
    version = read._version
    made = mlp.read_through(read)
    if made is read and read._version == version:
        return None
    if weight is None:
        return made
    return torch.where(weight == 0, value, (made - (0 if bias is None else bias)) / weight)


def _private(value: torch.Tensor) -> torch.Tensor:
    """A copy that may be written, and whose writes are counted, as they are not in inference mode."""
    learn = torch.is_grad_enabled()  # leaving inference mode changes it
    with torch.inference_mode(False), torch.set_grad_enabled(learn):
        return value.clone()


def _inferring(call: Callable[[torch.Tensor], torch.Tensor | None], value: torch.Tensor) -> torch.Tensor | None:
    """What a call returns in inference mode, as a tensor of the run, which is not in it."""
    with torch.inference_mode():
        made = call(value)
    return made.clone() if made is not None and made.is_inference() else made


def _as_leaf(value: torch.Tensor) -> torch.Tensor:
    """The value as something that gradients lead to."""
    return value if value.requires_grad else value.detach().clone().requires_grad_()
