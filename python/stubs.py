"""Writes the stubs of the module `hooked._hooked`: what type checkers and editors know of it.

Usage: stubs.py MODULE OUT TORCH, where MODULE is the built file, OUT the folder for `_hooked/*.pyi`, and TORCH the folder that holds torch
as a package.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def simplified(text: str) -> str:
    """The same in fewer words, without what a checker of the stub itself objects to."""
    # A base class of an enum that nanobind makes is said twice.
    text = re.sub(r"def __eq__\(self, (\w+): [^)]*\) -> bool", r"def __eq__(self, \1: object, /) -> bool", text)
    # nanobind names these without what they hold.
    text = re.sub(r"\bos\.PathLike\b(?!\[)", "os.PathLike[str]", text).replace("-> tuple:", "-> tuple[Any, ...]:")
    # Overloads of __eq__ that became equal.
    block = re.compile(r"(?:    @overload\n    def __eq__\(self, .*?\) -> bool: \.\.\.\n\n)+")
    return block.sub("    def __eq__(self, other: object, /) -> bool: ...\n\n", text)


def main() -> None:
    module, out, torch = map(Path, sys.argv[1:])
    sys.path.append(str(torch.resolve()))  # a build of pip's does not see the packages of its environment
    os.environ["HOOKED_PYTHON_BUILD"] = str(module.parent)
    import hooked  # noqa: F401  # loads the module that was built
    from nanobind.stubgen import StubGen

    built = sys.modules["hooked._hooked"]
    for value in vars(built).values():
        if isinstance(value, type):
            value.__module__ = built.__name__  # where the stub declares it
    folder = out / "_hooked"
    folder.mkdir(parents=True, exist_ok=True)
    for name, of in {"__init__": built, "act": built.act}.items():
        stubs = StubGen(module=of, quiet=True)
        stubs.put(of)
        (folder / f"{name}.pyi").write_text(simplified(stubs.get()))


if __name__ == "__main__":
    main()
