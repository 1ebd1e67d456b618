#!/usr/bin/env python3
"""Refuses a text in a source that names something by its C++ scope, as `Output::residual`. Errors are read at the command line and in Python too, where
`Output::residual` is no word: they name an option or a value in words (the output `residual`).

Usage: check_messages.py ROOT
"""

import pathlib
import re
import sys

FOLDERS = ("include/hooked", "hooks", "models", "families", "src")
# Comments go; adjacent literals are one text. A raw string holds none of our messages.
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s\\"]*)\(.*?\)(?P=d)"|#include[^\n]*|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'', re.S)
LITERAL = r'"(?:\\.|[^"\\\n])*"'
TEXT = re.compile(rf"{SKIPPED.pattern}|(?P<text>{LITERAL}(?:\s*{LITERAL})*)", re.S)
SCOPED = re.compile(r"\w+::\w*")
# Names that LibTorch knows operations by.
OPERATION = re.compile(r'"(hooked|mkldnn)::\w+"')


def texts_of(source):
    """(line, text) of each literal."""
    for found in TEXT.finditer(source):
        if found["text"]:
            yield source.count("\n", 0, found.start()) + 1, found["text"]


def main():
    root = pathlib.Path(sys.argv[1])
    sources = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in (".cc", ".h", ".inc")]
    if not sources:
        sys.exit(f"no source found under {root}: the check looked in the wrong place")
    problems, count = [], 0
    for path in sources:
        for line, text in texts_of(path.read_text(encoding="utf-8")):
            count += 1
            scoped = SCOPED.search(text)
            if scoped and not OPERATION.fullmatch(text):
                problems.append(f"{path.relative_to(root)}:{line}: says '{scoped[0]}'; expected words that the command line and Python have too")
    if problems:
        print(f"{len(problems)} texts name something by its C++ scope:", *problems, sep="\n  ")
        sys.exit(1)
    print(f"{count} texts name nothing by its C++ scope")


if __name__ == "__main__":
    main()
