#!/usr/bin/env python3
"""Counts the instructions of a few fixed small runs (benchmarks/counted_runs.cc) and compares them with those on record.

    cmake --build --preset release --target bench_counted_runs
    python3 scripts/instruction_counts.py [--record] [--program FILE]

Counts need no quiet machine: callgrind (Debian's package valgrind) runs the program on a processor of its own, without AVX-512,
on one thread. They guard what the engine does around its kernels, and the AVX2 path of those; the faster paths are guarded by
benchmarks. Fails when a run takes more than THRESHOLD more instructions than on record; --record puts today's on record,
for a commit that says why. Another compiler or LibTorch counts a little differently: the record names them.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "benchmarks/instruction_counts.json"
REGION = "hooked_counted_region"
THRESHOLD = 0.02  # of the count on record


def counts(program: str) -> dict:
    """What the program was made with, and instructions by the run's name."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "avx2", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--toggle-collect={REGION}", f"--dump-after={REGION}",
                   f"--callgrind-out-file={folder}/counts", program, str(ROOT / "examples/toy_model")]
        try:
            run = subprocess.run(command, env=environment, capture_output=True, text=True)
        except FileNotFoundError:
            sys.exit("[instruction counts] valgrind is missing; install it: bash scripts/setup.sh valgrind")
        if run.returncode != 0:
            sys.exit(f"[instruction counts] {' '.join(command)} failed:\n{run.stderr}")
        made_with, *names = run.stdout.splitlines()
        # One file for each call of the region, and one for what came after.
        totals = [int(re.search(r"^(?:totals|summary): (\d+)", pathlib.Path(f"{folder}/counts.{number + 1}").read_text(), re.M)[1])
                  for number in range(len(names))]
    return {"made_with": made_with, "instructions": dict(zip(names, totals))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="put today's counts on record")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/bench_counted_runs"))
    args = parser.parse_args()
    found = counts(args.program)
    if args.record:
        RECORD.write_text(json.dumps(found, indent=2) + "\n")
    record = json.loads(RECORD.read_text())
    if record["made_with"] != found["made_with"]:
        print(f"made with {found['made_with']}; the record with {record['made_with']}")
    slower = []
    for name in dict.fromkeys([*record["instructions"], *found["instructions"]]):
        before, now = record["instructions"].get(name), found["instructions"].get(name)
        if before is None or now is None:
            print(f"{name}: {'not on record' if before is None else 'on record, but no longer run'}")
            slower.append(name)
            continue
        change = now / before - 1
        verdict = "MORE" if change > THRESHOLD else "less: put it on record" if change < -THRESHOLD else "as on record"
        print(f"{name}: {now:,} instructions, {before:,} on record, {100 * change:+.2f} %: {verdict}")
        if change > THRESHOLD:
            slower.append(name)
    if slower:
        print(f"[instruction counts] more than {100 * THRESHOLD:g} % above the record: {', '.join(slower)}. Where that is meant, run "
              "python3 scripts/instruction_counts.py --record and say why in the commit.", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
