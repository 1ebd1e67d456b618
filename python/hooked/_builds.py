"""Finds the build of the engine that fits the installed torch.

LibTorch's C++ interface changes with each minor version, so a wheel holds one build for each: `torch-2.11/_hooked...so`.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

_NAME = "hooked._hooked"


def _folders() -> list[Path]:
    # A build that was made by hand, for development.
    if made := os.environ.get("HOOKED_PYTHON_BUILD"):
        return [Path(made)]
    return sorted(Path(__file__).parent.glob("torch-*"))


def _module_in(folder: Path) -> Path | None:
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if (file := folder / f"_hooked{suffix}").exists():
            return file
    return None


def load(torch_version: str) -> ModuleType:
    """Imports the build for this torch as `hooked._hooked`."""
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    minor = ".".join(torch_version.split(".")[:2])
    folders = _folders()
    fitting = [folder for folder in folders if folder.name == f"torch-{minor}" or os.environ.get("HOOKED_PYTHON_BUILD")]
    file = _module_in(fitting[0]) if fitting else None
    if file is None:
        builds = ", ".join(folder.name.removeprefix("torch-") for folder in folders if _module_in(folder)) or "none"
        raise ImportError(
            f"[hooked] no build of the engine fits torch {torch_version} and Python {sys.version_info.major}."
            f"{sys.version_info.minor}; expected one of the torch versions {builds}; install such a torch, or build the "
            "package against yours: pip install ./python in a checkout of hooked"
        )
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(file))
    spec = importlib.util.spec_from_file_location(_NAME, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[_NAME]
        raise
    return module
