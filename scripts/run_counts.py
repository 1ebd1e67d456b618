#!/usr/bin/env python3
"""Counts what a few fixed small runs cost without a clock (benchmarks/counted_runs.cc) and compares it with what is on record:
instructions, bytes of tensors that a run allocates, operators of LibTorch that it calls, pages that it meets for the first time.

    cmake --build --preset release --target bench_counted_runs
    python3 scripts/run_counts.py [--record] [--program FILE]

Counts need no quiet machine. Callgrind (Debian's package valgrind) counts instructions on a processor of its own, without
AVX-512, on one thread: they guard what the engine does around its kernels, and the AVX2 path of those; the faster paths are
guarded by benchmarks. Bytes and operators are counted there too, so that they are the same everywhere; pages are those of the
processor at hand. Each count is of a run that has been made twice before. Fails when a run takes more than the record and what COUNTS allows on top; --record puts today's
on record, for a commit that says why. Another compiler or LibTorch counts a little differently: the record names them.
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
RECORD = ROOT / "benchmarks/run_counts.json"
REGION = "hooked_counted_region"
# What is counted: by how much a run may exceed the record, as a share of it and as a number.
COUNTS = {"instructions": (0.02, 0), "bytes allocated": (0.02, 0), "operators": (0.02, 0), "pages met": (0, 64)}
ENVIRONMENT = {**os.environ, "ATEN_CPU_CAPABILITY": "avx2", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def output(command: list) -> list:
    try:
        run = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(f"[run counts] {command[0]} is missing; install valgrind with bash scripts/setup.sh valgrind, build the program "
                 "with cmake --build --preset release --target bench_counted_runs")
    if run.returncode != 0:
        sys.exit(f"[run counts] {' '.join(command)} failed:\n{run.stderr}")
    return run.stdout.splitlines()


def under_callgrind(command: list) -> tuple:
    """What the program prints there, and the instructions of each run in order."""
    with tempfile.TemporaryDirectory() as folder:
        lines = output(["valgrind", "--tool=callgrind", f"--toggle-collect={REGION}", f"--dump-after={REGION}",
                        f"--callgrind-out-file={folder}/counts", *command])
        # One file for each call of the region, and one for what came after. The first line belongs to no run.
        return lines, [int(re.search(r"^(?:totals|summary): (\d+)", pathlib.Path(f"{folder}/counts.{number}").read_text(), re.M)[1])
                       for number in range(1, len(lines))]


def counts(program: str) -> dict:
    """What the program was made with, and counts by the run's name."""
    command = [program, str(ROOT / "examples/toy_model")]
    (made_with, *lines), executed = under_callgrind(command)
    runs = {}
    for line, here, instructions in zip(lines, output(command)[1:], executed):
        name, bytes_allocated, operators, _ = line.split("\t")
        runs[name] = dict(zip(COUNTS, (instructions, int(bytes_allocated), int(operators), int(here.split("\t")[-1]))))
    return {"made_with": made_with, "runs": runs}


def verdict(count: str, before: int, now: int) -> str:
    share, more = COUNTS[count]
    allowed = share * before + more
    return "MORE" if now > before + allowed else "less: put it on record" if now < before - allowed else "as on record"


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
    for name in dict.fromkeys([*record["runs"], *found["runs"]]):
        before, now = record["runs"].get(name), found["runs"].get(name)
        if before is None or now is None:
            print(f"{name}: {'not on record' if before is None else 'on record, but no longer run'}")
            slower.append(name)
            continue
        print(f"{name}:")
        for count in COUNTS:
            found_so = verdict(count, before[count], now[count])
            print(f"  {count}: {now[count]:,}, {before[count]:,} on record: {found_so}")
            if found_so == "MORE":
                slower.append(f"{name} ({count})")
    if slower:
        print(f"[run counts] more than on record: {', '.join(slower)}. Where that is meant, run "
              "python3 scripts/run_counts.py --record and say why in the commit.", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
