"""What the engine asks about Python functions that it is given."""

import inspect
from collections.abc import Callable
from typing import Any


def positional_arguments(function: Callable[..., Any], most: int) -> int:
    """How many arguments `function` takes by position, at most `most`; a default counts as one that is not asked for."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not say
        return 1
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return most
    taken = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return max(1, min(most, len(taken)))
