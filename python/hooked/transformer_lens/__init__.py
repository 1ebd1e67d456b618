"""TransformerLens 3.9's HookedTransformer, run by hooked's engine, for code written against it (docs/python.md).

import hooked.transformer_lens
hooked.transformer_lens.install()
from transformer_lens import HookedTransformer  # is hooked's
"""

from hooked.transformer_lens.config import HookedTransformerConfig
from hooked.transformer_lens.encoder import HookedEncoder
from hooked.transformer_lens.errors import NotBridged
from hooked.transformer_lens.installing import install
from hooked.transformer_lens.kv_cache import TransformerLensKeyValueCache
from hooked.transformer_lens.model import HookedTransformer
from hooked.transformer_lens.upstream import ActivationCache, FactoredMatrix, HookedRootModule, HookPoint, patching
from hooked.transformer_lens.upstream import utilities as utils

__all__ = [
    "ActivationCache",
    "FactoredMatrix",
    "HookPoint",
    "HookedEncoder",
    "HookedRootModule",
    "HookedTransformer",
    "HookedTransformerConfig",
    "NotBridged",
    "TransformerLensKeyValueCache",
    "install",
    "patching",
    "utils",
]
