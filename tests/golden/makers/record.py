"""Records the golden cases: tests/golden/cases and tests/golden/index.json.

Without arguments every case is made anew and the folders of cases that no longer exist are removed; with globs only those
cases are made and the other rows of the index stay. Weights, tokens and outputs depend on the case's name alone.
"""

import json
import shutil
import sys

import torch

from .case_files import kGoldens, write_case
from .cases import chosen, makers
from .exceptions import kExceptions

kIndex = kGoldens / "index.json"


def read_index() -> dict:
    """The rows of the index by case."""
    return {row["case"]: row for row in json.loads(kIndex.read_text())["cases"]}


def write_index(rows: list) -> None:
    """One line for each kind of exception and for each case."""
    def lines(items) -> str:
        return ",\n".join(" " + item for item in items)

    exceptions = lines(f"{json.dumps(kind)}: {json.dumps(exception)}" for kind, exception in kExceptions.items())
    kIndex.write_text(f'{{\n"exceptions": {{\n{exceptions}\n}},\n"cases": [\n{lines(map(json.dumps, rows))}\n]\n}}\n')


def main(globs: list) -> None:
    torch.set_num_threads(1)
    selected = {maker.case for maker in chosen(globs)}
    old = read_index() if globs else {}
    rows = []
    for maker in makers():
        if not maker.committed:
            continue
        if maker.case in selected:
            rows.append(write_case(maker.make()))
            print(maker.case, file=sys.stderr)
        elif maker.case in old:
            rows.append(old[maker.case])
    write_index(rows)
    for folder in (kGoldens / "cases").iterdir():
        if folder.name not in {row["case"] for row in rows}:
            shutil.rmtree(folder)
    total = sum(file.stat().st_size for file in (kGoldens / "cases").rglob("*") if file.is_file())
    print(f"{len(rows)} cases, {total / 1e6:.1f} MB", file=sys.stderr)
