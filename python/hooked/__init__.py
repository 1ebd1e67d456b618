"""Transformers with every activation named, hookable and cacheable.

The engine is hooked's C++ library, inside the `torch` that is imported (docs/python.md).
"""

import torch as _torch  # the engine is linked with the LibTorch that this brings

from hooked import _builds

_hooked = _builds.load(_torch.__version__)

from hooked._hooked import *  # noqa: E402, F403
from hooked._hooked import __version__, act  # noqa: E402

from hooked._harvest import as_corpus, harvest, to_dataset  # noqa: E402

# Users find everything here.
for _value in list(vars(_hooked).values()):
    if isinstance(_value, type):
        _value.__module__ = "hooked"
