#!/usr/bin/env python3
"""Refuses a source or header of the rooms that has more lines than one may have. Tables (.inc) may have as many as they have rows.

Usage: check_lines.py ROOT [LINES]
"""

import pathlib
import sys

FOLDERS = ("include/hooked", "hooks", "models", "families", "src", "python/src")


def main():
    root = pathlib.Path(sys.argv[1])
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    counts = {
        path.relative_to(root): len(path.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".cc", ".h")
    }
    if not counts:
        sys.exit(f"no source found under {root}: the check looked in the wrong place")
    problems = [
        f"{path}: has {count} lines; expected at most {most}; give a part of it a source of its own"
        for path, count in counts.items()
        if count > most
    ]
    if problems:
        print(f"{len(problems)} sources are too long:", *problems, sep="\n  ")
        sys.exit(1)
    print(f"{len(counts)} sources have at most {most} lines each")


if __name__ == "__main__":
    main()
