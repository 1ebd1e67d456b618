#!/usr/bin/env python3
"""What does a start cost with weights in packed form, and what do processes share? GPT-2-small's shape as a plain native folder
and as one that `hooked save --packed` wrote, in alternation, each in a fresh process: seconds to load, of the first run (a
mapped file's pages are met there) and of the second, with the file in the page cache and read from the disk; memory of 1, 2
and 4 processes that hold the model, started together, with their starts; and what as many processes as there are
processors, with a thread each, harvest into one store, compared with one process. Prints medians (smallest to largest).

  benchmarks/cold_start.py [--rounds N] [--runner FILE] [--program FILE] [--questions start,memory,harvest]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import tempfile

import busy_machine
from rivals.process import Process
from rivals.questions import some_of

FORMS = ("plain", "packed")
QUESTIONS = ("start", "memory", "harvest")  # methods of Bench


def write_tokens(file: pathlib.Path, batch: int, length: int) -> pathlib.Path:
    draw = random.Random(1)
    data = struct.pack(f"<{batch * length}q", *(draw.randrange(busy_machine.VOCABULARY) for _ in range(batch * length)))
    header = json.dumps({"tokens": {"dtype": "I64", "shape": [batch, length], "data_offsets": [0, len(data)]}}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return file


def forget(folder: pathlib.Path) -> None:
    """Takes a folder's files out of the page cache."""
    for file in folder.iterdir():
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def memory_of(process: int) -> dict:
    """Bytes of a process: Rss, Pss and Private, which is what only it has."""
    sizes = {"Rss": 0, "Pss": 0, "Private": 0}
    for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]:
        key, size = line.split()[:2]
        key = "Private" if key.startswith("Private_") and not key.startswith("Private_Hugetlb") else key.rstrip(":")
        if key in sizes:
            sizes[key] += int(size) * 1024
    return sizes


def text(seconds: list) -> str:
    return f"{statistics.median(seconds):.3f} s ({min(seconds):.3f} to {max(seconds):.3f})"


class Bench:
    def __init__(self, args: argparse.Namespace, scratch: pathlib.Path):
        self.args, self.scratch = args, scratch
        args.scratch, args.threads = scratch, 1
        checkpoint = scratch / "checkpoint"
        checkpoint.mkdir()
        busy_machine.write_checkpoint(checkpoint)
        for form in FORMS:
            subprocess.run([args.program, "save", checkpoint, "--no-processing", "--out", scratch / form]
                           + ["--packed"] * (form == "packed"), check=True, stdout=subprocess.DEVNULL)

    def process(self, form: str) -> Process:
        process = Process("hooked", self.args)
        process.ask(do="peak")  # it has started
        process.load_ms = process.ask(do="load", folder=str(self.scratch / form), dtype="float32", threads=self.args.threads,
                                      device="cpu")["ms"][0]
        return process

    def run(self, process: Process, what: str, tokens: pathlib.Path, repeats: int = 1, **more) -> float:
        """Seconds."""
        return sum(process.ask(do=what, tokens=str(tokens), repeats=repeats, **more)["ms"]) / 1000

    def start(self) -> None:
        tokens = write_tokens(self.scratch / "short.safetensors", 1, 16)
        for cold in (False, True):
            costs = {form: [] for form in FORMS}
            for turn in range(2 * self.args.rounds):
                form = FORMS[turn % 2]
                if cold:
                    forget(self.scratch / form)
                with self.process(form) as process:
                    runs = [self.run(process, "forward", tokens) for _ in range(2)]
                    costs[form].append((process.load_ms / 1000, *runs))
            for form, of_form in costs.items():
                load, first, second = zip(*of_form)
                both = [a + b for a, b in zip(load, first)]
                print(f"{'from the disk' if cold else 'in the page cache'}, {form}: load {text(load)}, first run {text(first)}, "
                      f"both {text(both)}, second run {text(second)}", flush=True)

    def memory(self) -> None:
        """Pss counts a page that n processes share as its nth part in each; private pages are one process's alone, and Rss counts
        a shared page in each."""
        tokens = write_tokens(self.scratch / "short.safetensors", 1, 16)
        for form in FORMS:
            for count in (1, 2, 4):
                with concurrent.futures.ThreadPoolExecutor(count) as pool:
                    def started(_) -> tuple:
                        process = self.process(form)
                        return process, process.load_ms / 1000 + self.run(process, "forward", tokens)

                    processes, seconds = zip(*pool.map(started, range(count)))
                sizes = [memory_of(process.process.pid) for process in processes]
                for process in processes:
                    process.__exit__()
                of_all = {key: sum(size[key] for size in sizes) / 1e6 for key in sizes[0]}
                print(f"{form}, {count} processes: {of_all['Pss']:.0f} MB in all (Pss), {of_all['Private'] / count:.0f} MB of each "
                      f"private, {of_all['Rss'] / count:.0f} MB of each resident (Rss); load and first run {text(seconds)}", flush=True)

    def harvest(self) -> None:
        tokens = write_tokens(self.scratch / "long.safetensors", 160, 128)
        count = os.cpu_count()
        for form in FORMS:
            def rate(share: int, store: str) -> float:
                """Tokens a second of one process with one thread, which harvests its share of a store."""
                command = [self.args.program, "harvest", self.scratch / form, "--corpus", tokens, "--names", "blocks.5.hook_resid_post",
                           "--unit-tokens", "2560", "--units", f"{share}/{count}", "--out", self.scratch / store, "--json"]
                done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True,
                                                 env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout)
                return done["tokens_done"] / done["seconds"]

            ratios = []
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                for number in range(self.args.rounds):
                    before = rate(0, f"{form}-before-{number}")
                    together = sum(pool.map(lambda share: rate(share, f"{form}-{number}"), range(count)))
                    after = rate(0, f"{form}-after-{number}")
                    ratios.append(2 * together / (before + after))
                    for store in self.scratch.glob(f"{form}-*"):
                        shutil.rmtree(store)
            print(f"{form}, harvest of {count} processes ÷ that of one: {statistics.median(ratios):.3f} "
                  f"({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runner", default="build/release/bin/bench_rival_runner")
    parser.add_argument("--program", default="build/release/bin/hooked")
    parser.add_argument("--questions", type=some_of(QUESTIONS), default=list(QUESTIONS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=pathlib.Path.cwd()) as scratch:
        bench = Bench(args, pathlib.Path(scratch))
        for question in args.questions:
            getattr(bench, question)()


if __name__ == "__main__":
    main()
