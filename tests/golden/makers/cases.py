"""Every case: the models that oracles are asked about."""

import fnmatch

from . import checkpoints, encoder_cases, gpt2_cases, transformer_lens_cases, transformers_cases


def makers() -> list:
    """A Maker of every case, in the order of the index."""
    of_all_points = transformer_lens_cases.makers() + encoder_cases.makers() + transformers_cases.makers() + gpt2_cases.makers()
    return of_all_points + sorted(checkpoints.makers(), key=lambda maker: maker.case)


def chosen(globs: list) -> list:
    """The makers of the cases that one of the globs matches; of all without globs."""
    return [maker for maker in makers() if not globs or any(fnmatch.fnmatch(maker.case, glob) for glob in globs)]
