"""Runs notebooks without a kernel: cell by cell in one namespace, in the notebook's folder.

`python tests/python/notebook.py NOTEBOOK...` stores what the cells show in the notebooks; test_notebooks.py compares it with what is
stored.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def _shown(value: Any) -> Output:
    """What a notebook shows of a cell's last value."""
    data: dict[str, list[str]] = {}
    for kind, method in (("image/svg+xml", "_repr_svg_"), ("text/html", "_repr_html_")):
        text = getattr(value, method, lambda: None)()
        if text is not None:
            data[kind] = text.splitlines(keepends=True)
            break
    data["text/plain"] = repr(value).splitlines(keepends=True)
    return {"output_type": "execute_result", "metadata": {}, "data": data}


def run_cell(source: str, namespace: dict[str, Any]) -> list[Output]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    outputs: list[Output] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        outputs.append(_shown(value))
    return outputs


def run(notebook: Path) -> tuple[dict[str, Any], list[list[Output]]]:
    """The notebook as it is stored, and what its cells of code show now."""
    content = json.loads(notebook.read_text())
    namespace: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    with _chdir(notebook.parent):
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                outputs.append(run_cell("".join(cell["source"]), namespace))
    return content, outputs


@contextlib.contextmanager
def _chdir(folder: Path) -> Iterator[None]:  # contextlib.chdir is Python 3.11's
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def texts(outputs: list[Output]) -> str:
    """The text of a cell's outputs."""
    return "".join("".join(output.get("text", output.get("data", {}).get("text/plain", []))) + "\n" for output in outputs)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def same_up_to_rounding(stored: str, now: str) -> bool:
    """Numbers may differ in their last digits from one processor to another."""
    if NUMBER.sub("0", stored) != NUMBER.sub("0", now):
        return False
    pairs = zip(NUMBER.findall(stored), NUMBER.findall(now))
    return all(abs(float(a) - float(b)) <= 0.011 + 0.002 * abs(float(a)) for a, b in pairs)


def store(notebook: Path) -> None:
    content, outputs = run(notebook)
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for count, (cell, shown) in enumerate(zip(cells, outputs), 1):
        cell["execution_count"] = count
        cell["outputs"] = [one | {"execution_count": count} if one["output_type"] == "execute_result" else one for one in shown]
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        store(Path(name).resolve())
