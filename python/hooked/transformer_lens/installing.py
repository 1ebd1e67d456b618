"""install(): `import transformer_lens` finds the classes of this package."""

import sys
from types import ModuleType
from typing import Any

from hooked.transformer_lens import components, config, encoder, kv_cache, model, upstream

# Modules of TransformerLens, and what they are to define.
_OURS: dict[str, dict[str, Any]] = {
    "HookedTransformer": {"HookedTransformer": model.HookedTransformer, "Output": model.Output},
    "HookedEncoder": {"HookedEncoder": encoder.HookedEncoder},
    "HookedTransformerConfig": {"HookedTransformerConfig": config.HookedTransformerConfig},
    "config": {"HookedTransformerConfig": config.HookedTransformerConfig},
    "config.hooked_transformer_config": {"HookedTransformerConfig": config.HookedTransformerConfig},
    "cache.key_value_cache": {"TransformerLensKeyValueCache": kv_cache.TransformerLensKeyValueCache},
    "past_key_value_caching": {"HookedTransformerKeyValueCache": kv_cache.TransformerLensKeyValueCache},
    "components": {
        name: value
        for name, value in vars(components).items()
        if isinstance(value, type) and issubclass(value, components.Component) and not name.startswith("_")
    },
    "components.mlps": {},
    "components.mlps.can_be_used_as_mlp": {"CanBeUsedAsMLP": components.Component},
    "utils": {},
}


def _all_loaded() -> list[ModuleType]:
    return [
        m
        for name, m in list(sys.modules.items())
        if name.split(".")[0] == "transformer_lens" and isinstance(m, ModuleType)
    ]


def _module(name: str) -> ModuleType:
    full = f"transformer_lens.{name}"
    if full not in sys.modules:
        made = ModuleType(full)
        if name == "utils":
            made.__dict__.update(
                {key: value for key, value in vars(upstream.utilities).items() if not key.startswith("__")}
            )
        sys.modules[full] = made
        parent, _, last = full.rpartition(".")
        # The class of that name, if there is one, is what `transformer_lens.X` means.
        if parent in sys.modules and last not in _OURS.get(last, {}):
            setattr(sys.modules[parent], last, made)
    return sys.modules[full]


def install() -> None:
    """Puts this package's classes into the installed TransformerLens, 3.x or 4.x, for this process.

    Call it before anything else imports names from `transformer_lens`: names that a module has already imported stay
    what they were.
    """
    replaced: dict[int, Any] = {}
    for name, classes in _OURS.items():
        module = _module(name)
        for attribute, ours in classes.items():
            if (before := vars(module).get(attribute)) is not None and before is not ours:  # 4.x refuses getattr
                replaced[id(before)] = ours
            setattr(module, attribute, ours)
    for module in _all_loaded():
        for attribute, value in list(vars(module).items()):
            if id(value) in replaced:
                setattr(module, attribute, replaced[id(value)])
    for name in ("HookedTransformer", "HookedEncoder", "HookedTransformerConfig"):
        setattr(upstream.package, name, _OURS[name][name])
