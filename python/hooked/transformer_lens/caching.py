"""run_with_cache: the engine captures what no hook needs to see."""

from collections.abc import Callable
from typing import Any

import torch

from hooked.transformer_lens.runs import Capture, EngineModel
from hooked.transformer_lens.upstream import ActivationCache, HookPoint, Slice

# Points whose positions are the axis before the heads.
_PER_HEAD = ("q", "k", "v", "z", "result", "rot_q", "rot_k", "q_input", "k_input", "v_input", "attn_in")


def _predicate(names_filter: Any) -> Callable[[str], bool]:
    if names_filter is None:
        return lambda name: True
    if isinstance(names_filter, str):
        return lambda name: name == names_filter
    if isinstance(names_filter, list):
        chosen = set(names_filter)
        return lambda name: name in chosen
    if callable(names_filter):
        return names_filter
    raise ValueError(
        f"[run_with_cache] names_filter is of a wrong type; expected None, a text, a list of texts or a function of a "
        f"name, got {type(names_filter).__name__}"
    )


class CachingModel(EngineModel):
    """A model whose activations can be cached."""

    def run_with_cache(
        self,
        *model_args: Any,
        return_cache_object: bool = True,
        names_filter: Any = None,
        device: Any = None,
        remove_batch_dim: bool = False,
        incl_bwd: bool = False,
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
        pos_slice: Any = None,
        **model_kwargs: Any,
    ) -> tuple[Any, Any]:
        """Runs the model; returns its output and the activations that `names_filter` names, after all hooks.

        Unknown names, and points that the run does not reach, are left out. With `incl_bwd` the output, a scalar, is
        differentiated, and the gradient at each point is kept as `<name>_grad`.
        """
        matches = _predicate(names_filter)
        chosen = [name for name in self.hook_dict if matches(name)]
        self.engine()  # finds the points that torch computes
        # Points inside of a module that was put at a point or in another's place, and gradients, need hooks.
        captured = [
            name
            for name in chosen
            if name in self._places and name not in self._outside and type(self._places[name].module) is HookPoint
        ]
        inner = set(chosen) - set(captured)
        hooked_values, forward, backward = self.get_caching_hooks(
            lambda name: name in inner or (incl_bwd and name in captured),
            incl_bwd,
            device,
            remove_batch_dim=remove_batch_dim,
            pos_slice=pos_slice,
        )
        capture = Capture([] if incl_bwd else captured)
        with self.hooks(
            fwd_hooks=forward, bwd_hooks=backward, reset_hooks_end=reset_hooks_end, clear_contexts=clear_contexts
        ):
            self._capture = capture
            try:
                output = self(*model_args, **model_kwargs)
            finally:
                self._capture = None
            if incl_bwd:
                output.backward()
        keep = Slice.unwrap(pos_slice)
        found = {name: self._kept(name, value, keep, device, remove_batch_dim) for name, value in capture.found.items()}
        found |= hooked_values
        if not return_cache_object:
            return output, found
        return output, ActivationCache(found, self, has_batch_dim=not remove_batch_dim)

    @staticmethod
    def _kept(name: str, value: torch.Tensor, keep: Any, device: Any, remove_batch_dim: bool) -> torch.Tensor:
        axis = -3 if name.rpartition("hook_")[2] in _PER_HEAD else -1 if name == "hook_tokens" else -2
        if value.ndim >= -axis:
            value = keep.apply(value, dim=axis)
        if device is not None:
            value = value.to(device)
        return value[0] if remove_batch_dim else value
