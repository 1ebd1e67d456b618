#!/usr/bin/env python3
"""Compares every activation of golden cases between two programs `hooked`: in float64 to 1e-12, in float32 to 2e-5.

Each case is run by `hooked cache --names '*'` with both. The difference of a tensor is max|a - b| / max(1, max|a|); the same
infinities are equal, and so are two NaN.

Usage: scripts/compare_activations.py [--every N] COMMAND COMMAND     each N-th case; a command may have options of its own
The model folders are those that the target `goldens` of the release preset has written.
"""

import argparse
import array
import json
import math
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCES = {"float64": 1e-12, "float32": 2e-5}
CODES = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "BOOL": "B"}


def tensors(path):
    """name: (shape, numbers) of a safetensors file."""
    data = path.read_bytes()
    start = 8 + struct.unpack_from("<Q", data)[0]
    found = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = (entry["shape"], array.array(CODES[entry["dtype"]], data[start + begin : start + end]))
    return found


def difference(expected, got):
    largest = size = 0.0
    for a, b in zip(expected, got):
        if a == b or (a != a and b != b):
            continue
        if not math.isfinite(a - b):
            return math.inf
        largest = max(largest, abs(a - b))
    if largest:
        size = max((abs(a) for a in expected if math.isfinite(a)), default=0.0)
    return largest / max(1.0, size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th case (default: all)")
    parser.add_argument("commands", nargs=2, metavar="COMMAND", help="the program, whose numbers are expected, and the other one")
    options = parser.parse_args()
    folders = sorted(path for path in (ROOT / "build/release/goldens/cases").iterdir() if path.is_dir())
    chosen = folders[:: options.every]
    failed = False
    for dtype, tolerance in TOLERANCES.items():
        worst, where, count = 0.0, "", 0
        for folder in chosen:
            with tempfile.TemporaryDirectory() as scratch:
                runs = []
                for number, command in enumerate(options.commands):
                    out = pathlib.Path(scratch, f"{number}.safetensors")
                    words = [*shlex.split(command), "cache", str(folder), "--tokens-file", str(ROOT / "tests/golden/cases" / folder.name / "golden.safetensors"),
                             "--no-processing", "--names", "*", "--dtype", dtype, "--out", str(out)]
                    run = subprocess.run(words, capture_output=True, text=True)
                    if run.returncode:
                        sys.exit(f"[compare] {shlex.join(words)} failed:\n{run.stderr}")
                    runs.append(tensors(out))
            expected, got = runs
            if expected.keys() != got.keys():
                sys.exit(f"[compare] {folder.name}: one has {sorted(expected.keys() ^ got.keys())}, the other does not")
            for name, (shape, numbers) in expected.items():
                count += 1
                gap = difference(numbers, got[name][1]) if shape == got[name][0] else math.inf
                if gap > tolerance:
                    failed = True
                    print(f"[compare] {folder.name} {name} {dtype}: {gap:.1e}; expected at most {tolerance:g}", flush=True)
                if gap > worst:
                    worst, where = gap, f" ({folder.name}, {name})"
        print(f"[compare] {dtype}: {count} tensors of {len(chosen)} of {len(folders)} cases, the largest difference is "
              f"{worst:.1e}{where}", flush=True)
    return 1 if failed else 0


sys.exit(main())
