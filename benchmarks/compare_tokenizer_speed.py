"""Compares the speed of hooked's tokenizers with the PyPI package `tokenizers`, one thread each, same run, equal ids.

    python -m venv .venv && .venv/bin/pip install -r tests/golden/requirements.txt
    cmake --build --preset release --target bench_tokenizer
    .venv/bin/python benchmarks/compare_tokenizer_speed.py [FOLDER-OF-GPT2 [MEGABYTES]]

FOLDER-OF-GPT2 holds vocab.json and merges.txt (or encoder.json and vocab.bpe); without it the vocabulary is made from
tests/text/files/gpt2/merges.txt. The texts are made from what is on the disk: English from licences and documentation, code
from Python's standard library. Printed are the ratios package / hooked of the best of five runs in turn: above 1, hooked is
faster.
"""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

kRoot = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(kRoot / "tests" / "golden"))
from makers.tokenizers import gpt2_pair  # noqa: E402

kProgram = kRoot / "build" / "release" / "bin" / "bench_tokenizer"
kRuns = 5


def collected(files, size: int) -> str:
    """`size` characters of the files' text, repeated where they have fewer."""
    texts, total = [], 0
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        texts.append(text)
        total += len(text)
        if total >= size:
            break
    whole = "\n".join(texts)
    return (whole * (size // max(1, len(whole)) + 1))[:size]


def main(arguments: list) -> None:
    size = int(float(arguments[1]) * 1e6) if len(arguments) > 1 else 10_000_000
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    documents = sorted(pathlib.Path("/usr/share/common-licenses").glob("*")) + sorted(
        file for pattern in ("*.txt", "*.md", "*.rst", "copyright", "README*") for file in pathlib.Path("/usr/share/doc").rglob(pattern))
    texts = {"english": collected(documents, size), "code": collected(sorted(library.rglob("*.py")), size)}
    package = gpt2_pair()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model = pathlib.Path(arguments[0]) if arguments else folder / "tokenizer.json"
        if not arguments:
            package.save(str(model))
        for name, text in texts.items():
            (folder / "text").write_text(text, encoding="utf-8", newline="")
            theirs, ours = [], []
            for _ in range(kRuns):
                begin = time.perf_counter()
                expected = package.encode(text, add_special_tokens=False)
                theirs.append(time.perf_counter() - begin)
                written = folder / "ids.json"
                run = subprocess.run([kProgram, model, folder / "text", written], check=True, capture_output=True, text=True)
                ours.append(float(run.stdout))
            equal = json.loads(written.read_text()) == expected.ids
            print(f"{name}: {len(text.encode()) / 1e6:.1f} MB, {len(expected.ids)} tokens, ids {'equal' if equal else 'DIFFER'}, "
                  f"package / hooked = {min(theirs) / min(ours):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
