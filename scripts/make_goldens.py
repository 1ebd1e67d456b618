"""Makes the golden files in tests/golden/files: outside oracles run in float64 on tiny random models.

    python -m venv .venv && .venv/bin/pip install -r scripts/requirements-goldens.txt
    .venv/bin/python scripts/make_goldens.py [CASE-GLOB ...]

Without arguments every case is made anew and folders of cases that no longer exist are removed; with globs only those
cases are made and the other rows of index.json stay. Weights, tokens and outputs depend on the case's name alone.
The cases and what they cover are the tables kRows in goldens/transformer_lens_cases.py, goldens/encoder_cases.py,
goldens/transformers_cases.py and goldens/gpt2_cases.py.
"""

import fnmatch
import json
import os
import pathlib
import shutil
import sys
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch  # noqa: E402

from goldens import encoder_cases, gpt2_cases, transformer_lens_cases, transformers_cases  # noqa: E402
from goldens.case_files import write_case  # noqa: E402

kRoot = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "files"


def main(globs: list) -> None:
    torch.set_num_threads(1)
    kRoot.mkdir(parents=True, exist_ok=True)
    index_file = kRoot / "index.json"
    old = {row["case"]: row for row in json.loads(index_file.read_text())} if globs and index_file.exists() else {}
    makers = transformer_lens_cases.makers() + encoder_cases.makers() + transformers_cases.makers() + gpt2_cases.makers()
    rows = []
    for case, maker in makers:
        if globs and not any(fnmatch.fnmatch(case, glob) for glob in globs):
            rows += [old[case]] if case in old else []
            continue
        rows.append(write_case(kRoot, maker()))
        print(case, "" if rows[-1]["processed"] else "(raw only)", file=sys.stderr)
    index_file.write_text(json.dumps(rows, indent=1) + "\n")
    for folder in kRoot.iterdir():
        if folder.is_dir() and folder.name not in {case for case, _ in makers}:
            shutil.rmtree(folder)
    total = sum(f.stat().st_size for f in kRoot.rglob("*") if f.is_file())
    print(f"{len(rows)} cases, {total / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
