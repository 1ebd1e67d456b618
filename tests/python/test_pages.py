"""The Python of pages runs, in the order of each page."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/tour.md"])
def test_code_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
    assert blocks
    namespace: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)


def test_nothing_says_to_install_the_other_distribution() -> None:
    """`hooked` on the Python package index is another project."""
    wrong = r"pip3? install ([^`\n]* )?hooked( |$|`|\"|')"
    found = subprocess.run(["git", "grep", "-nIE", wrong, "--", ":!tests/python/test_pages.py"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode == 128:
        pytest.skip("not a checkout of git")
    assert found.stdout == ""
