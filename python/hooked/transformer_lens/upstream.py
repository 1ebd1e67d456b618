"""What is taken from the installed TransformerLens: the classes and helpers that 3.x and 4.x both have."""

try:
    import transformer_lens as package
except ImportError as error:
    raise ImportError(
        "[hooked.transformer_lens] TransformerLens is not installed, whose HookPoint, ActivationCache and other helpers "
        "this package uses; expected version 3 or later; install it with: pip install transformer-lens"
    ) from error

from transformer_lens import patching, utilities
from transformer_lens.ActivationCache import ActivationCache
from transformer_lens.FactoredMatrix import FactoredMatrix
from transformer_lens.hook_points import HookPoint
from transformer_lens.utilities import Slice

try:
    from transformer_lens.HookedRootModule import HookedRootModule
except ImportError:  # before 3.3
    from transformer_lens.hook_points import HookedRootModule

__all__ = [
    "ActivationCache",
    "FactoredMatrix",
    "HookPoint",
    "HookedRootModule",
    "Slice",
    "package",
    "patching",
    "utilities",
]
