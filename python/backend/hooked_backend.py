"""Builds the wheel with scikit-build-core, and refuses a source distribution: it would lack the engine, which lies beside."""

from scikit_build_core.build import *  # noqa: F403


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    raise SystemExit(
        "[hooked] a source distribution of python/ would lack the engine, which the folders beside it hold; expected a "
        "wheel; build one in a checkout: pip wheel --no-deps ./python, or scripts/python_wheels.sh"
    )
