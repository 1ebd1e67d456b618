#!/usr/bin/env python3
"""Times hooked against transformers, TransformerLens, SAELens, nnsight and llama.cpp on one machine, in one run, with compared results.

    python3 -m venv .venv && .venv/bin/pip install -r tests/golden/requirements.txt -r benchmarks/requirements.txt
    cmake --build --preset release --target bench_rival_runner
    .venv/bin/pip install ./python     (for the rows of Python; without it they are left out)
    .venv/bin/python benchmarks/compare_rivals.py [--quick] [--rounds N] [--threads N] [--device cuda]
        [--write-docs] [--json FILE]

Random models of two shapes are written as folders of Hugging Face, and quantised ones as GGUF files, whose weights stay as they
are stored (rivals/models.py). Everybody loads them without weight processing, in a
process of its own that stays alive, with equal threads. Question by question (rivals/questions.py) the processes first write
what they computed, which is compared (rivals/agreement.py), then take turns, round after round: a machine that slows down
slows all of them. Ratios are taken within a round. What the machine itself allows is measured in the same run.

With --device cuda everybody's model lies on the first GPU that CUDA_VISIBLE_DEVICES leaves, and a time ends when the GPU has
done what it was given; scripts/measure_gpu.sh calls it so. A rival that is not installed is named, and the others are asked.

Fails (exit status 1) when somebody computed something else, whoever was faster, or could not answer. Targets that are missed
are shown, no more.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"

from safetensors.torch import save_file  # noqa: E402

from rivals import agreement, models, page  # noqa: E402
from rivals.figures import ways  # noqa: E402
from rivals.process import Failure, Process, fresh  # noqa: E402
from rivals.questions import ALL, ENGINES, GGUF, LENS, PROMPT, QUESTIONS, asked, some_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TURN_MS = 300  # a turn repeats a run until it takes about as long, at most REPEATS times
REPEATS = 10
FRESH_ROUNDS = 3
ALL_SHAPES = models.SHAPES + models.QUANTISED
FLOOR_ROWS = {"cpu": (16, 128, 512, 1024), "cuda": (16, 128, 512, 1024, 4096)}  # tokens


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, help="turns of every process; 7, with --quick 2")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", choices=list(FLOOR_ROWS), default="cpu", help="where everybody's model lies")
    parser.add_argument("--quick", action="store_true", help="few rounds and no questions that take minutes")
    parser.add_argument("--only", choices=[shape.name for shape in ALL_SHAPES], help="one model")
    parser.add_argument("--dtypes", choices=("float32", "both"), default="both")
    parser.add_argument("--questions", type=some_of((*QUESTIONS, "fresh")), default=[],
                        help="keys of rivals/questions.py, with commas, and `fresh` for costs of fresh processes; all")
    parser.add_argument("--seconds", type=float, help="ask nothing more after this many seconds, and report what was left out")
    parser.add_argument("--write-docs", action="store_true", help="write the tables of docs/speed.md")
    parser.add_argument("--json", type=pathlib.Path, help="write everything to this file")
    parser.add_argument("--text", type=pathlib.Path, help="write the tables to this file, after each answer")
    parser.add_argument("--runner", default=str(ROOT / "build/release/bin/bench_rival_runner"))
    args = parser.parse_args()
    args.deadline = time.monotonic() + args.seconds if args.seconds else float("inf")
    args.rounds = args.rounds or (2 if args.quick else 7)
    if args.write_docs and args.device != "cpu":
        parser.error("docs/speed.md holds figures of a CPU; scripts/measure_gpu.sh writes those of a GPU to docs/gpu.md")
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before anybody asks for CUDA; processes inherit it
    return args


def lowest(floors: list) -> dict:
    """Of what the machine allowed before and after the questions: the better."""
    if not floors:
        return {"products": [], "read_gb_per_s": float("nan")}
    first, last = floors[0], floors[-1]
    products = [{**a, **{way: min(a[way], b[way]) for way in ways(a)}} for a, b in zip(first["products"], last["products"])]
    return {**first, "products": products, "read_gb_per_s": max(first["read_gb_per_s"], last["read_gb_per_s"])}


class Comparison:
    """All questions to one model in one dtype; `stored`: in float32, with weights that stay as they are in the file."""

    def __init__(self, shape: models.Shape, dtype: str, args, agreements: list):
        self.shape, self.dtype, self.args = shape, dtype, args
        self.folder = models.place(shape, args.scratch)
        self.agreements = agreements
        self.result = {"ms": {}, "fresh": {}, "floor": lowest([]), "weight_bytes": 0}  # filled question by question

    def tokens(self, batch: int, length: int) -> str:
        path = self.args.scratch / f"tokens_{batch}x{length}.safetensors"
        if not path.exists():
            save_file({"tokens": models.tokens(self.shape, batch, length)}, path)
        return str(path)

    def outcome(self, key: str, engine: str, dtype: str) -> str:
        return str(self.args.scratch / f"{self.shape.name}-{key}-{engine}-{dtype}.safetensors")

    def load_command(self, context: int) -> dict:
        kept = self.dtype == "stored"
        return {"do": "load", "folder": str(self.folder), "dtype": "float32" if kept else self.dtype,
                "weights": "stored" if kept else "expanded", "threads": self.args.threads, "context": context,
                "device": self.args.device}

    def compute_exactly(self, questions: dict) -> None:
        """What float64 makes of the numbers that are stored."""
        with Process("hooked", self.args) as process:
            process.ask(**{**self.load_command(0), "dtype": "float64", "weights": "expanded"})
            for key, question in questions.items():
                process.ask(**question.command, tokens=self.tokens(question.batch, question.length), repeats=0,
                            write=self.outcome(key, "hooked", "float64"))

    def agree(self, key: str, question, processes: dict) -> None:
        """Everybody writes what they compute; ours in float32 is kept for bfloat16."""
        files = {}
        for engine in question.engines:
            files[engine] = self.outcome(key, engine, self.dtype)
            processes[engine].ask(**question.command, tokens=self.tokens(question.batch, question.length), repeats=0,
                                  write=files[engine])
        decodes = question.command["do"] == "decode"
        ours = next(iter(files))
        kept = self.dtype == "stored"
        exact = self.outcome(key, "hooked", "float64") if kept else self.outcome(key, ours, "float32")
        if not kept and (len(files) == 1 or not ours.startswith("hooked")):
            found = []
        elif self.dtype == "float32":
            columns = PROMPT + question.command["new_tokens"] - 1 if decodes else None
            found = [agreement.float32(question.text, e, files[ours], files[e], columns) for e in files if e != ours]
        elif not os.path.exists(exact):
            found = [agreement.Agreement(question.text, ours, problems=["there is nothing of float32 to compare with"])]
        else:
            found = agreement.rounded(question.text, self.dtype, exact, files, PROMPT if decodes else None)
        for one in found:
            print("  " + one.text, flush=True)
        self.agreements += found
        for engine, file in files.items():
            if engine != ours or self.dtype != "float32":
                os.unlink(file)

    def turn(self, process: Process, question, repeats: int) -> float:
        """Milliseconds of one run, or of one step of a generation: the whole without its first token, over the others."""
        command = {**question.command, "tokens": self.tokens(question.batch, question.length), "repeats": repeats}
        ms = statistics.median(process.ask(**command)["ms"])
        if question.command["do"] != "decode":
            return ms
        first = statistics.median(process.ask(**{**command, "new_tokens": 1})["ms"])
        return (ms - first) / (question.command["new_tokens"] - 1)

    def times(self, question, processes: dict) -> dict:
        """Milliseconds by engine and round."""
        engines = list(question.engines)
        if question.rounds is None:  # the first turn warms up, and says how many runs make a turn
            repeats = {e: max(1, min(REPEATS, int(TURN_MS / self.turn(processes[e], question, 1)))) for e in engines}
        else:
            repeats = dict.fromkeys(engines, 1)
        if question.command["do"] == "decode":
            repeats = dict.fromkeys(engines, 1)
        ms = {engine: [] for engine in engines}
        for number in range(min(question.rounds or self.args.rounds, self.args.rounds)):
            for engine in engines if number % 2 == 0 else reversed(engines):
                ms[engine].append(self.turn(processes[engine], question, repeats[engine]))
        return ms

    def loaded(self, processes: dict, context: int, about: dict) -> dict:
        """Those of the processes that have a model; the others are named in `about`."""
        able = {}
        for process in processes.values():  # in parallel
            process.tell(**self.load_command(context))
        for engine, process in processes.items():
            try:
                loaded = process.answer()
            except Failure as failure:
                if engine == "hooked":
                    raise
                about["absent"][engine] = failure.reason
                if not failure.absent:
                    self.agreements.append(agreement.Agreement("load", engine, problems=[failure.reason]))
                continue
            about["versions"] |= loaded["versions"]
            about["instructions"].add(loaded["instructions"])
            about["devices"].add(loaded.get("device", self.args.device))
            assert loaded["threads"] == self.args.threads, loaded
            self.result |= loaded.get("about", {})
            able[engine] = process
        return able

    def floor(self, processes: dict, rows: tuple) -> list:
        """What the machine allows, in a list; none where that failed."""
        try:
            return [processes["transformers"].ask(do="floor", rows=rows)] if "transformers" in processes else []
        except Failure as failure:
            print(f"FAILED: {failure}", flush=True)
            self.agreements.append(agreement.Agreement("the machine's floor", failure.engine, problems=[failure.reason]))
            return []

    def answers(self, question, key: str, processes: dict) -> dict:
        """Milliseconds by engine and round; an engine that cannot answer is noted, and the others are asked again."""
        engines = [engine for engine in question.engines if engine in processes]
        while engines:
            asked = dataclasses.replace(question, engines=tuple(engines))
            try:
                self.agree(key, asked, processes)
                return self.times(asked, processes)
            except Failure as failure:
                print(f"  FAILED: {failure}", flush=True)
                self.agreements.append(agreement.Agreement(question.text, failure.engine, problems=[failure.reason]))
                engines.remove(failure.engine)
        return {}

    def fresh_costs(self, able: dict) -> dict:
        """Loading, a first run, and memory, each in processes of their own that take turns."""
        tokens = {length: self.tokens(1, length) for length in (128, 1024)}
        load = self.load_command(1024)
        kinds = {"load": (ALL, [load]),
                 "first_run": (ALL, [load, {"do": "forward", "tokens": tokens[128], "repeats": 1}]),
                 "keep": (LENS, [load, {"do": "cache", "points": "defaults", "tokens": tokens[1024], "repeats": 1}])}
        if self.dtype == "stored":
            kinds = {"load": (GGUF, [load])}
        kinds = {kind: ([engine for engine in engines if engine in able], commands) for kind, (engines, commands) in kinds.items()}
        costs = {kind: {engine: [] for engine in engines} for kind, (engines, _) in kinds.items()}
        for _ in range(1 if self.args.quick else min(self.args.rounds, FRESH_ROUNDS)):
            for kind, (engines, commands) in kinds.items():
                for engine in engines:
                    costs[kind][engine].append(fresh(engine, self.args, *commands))
        return costs

    def run(self, about: dict, report) -> None:
        """Asks everything, and calls `report` whenever there is an answer."""
        questions = asked(self.shape.name, self.dtype, self.args.device, self.args.quick)
        if self.args.questions:
            questions = {key: q for key, q in questions.items() if key in self.args.questions}
        context = max((q.length for q in questions.values()), default=0)
        context = min(self.shape.context, max(context, 1024))
        result = self.result
        if self.dtype == "stored":
            self.compute_exactly(questions)
        engines = {engine for question in questions.values() for engine in question.engines}
        if self.dtype != "stored":
            engines |= {*ALL}  # transformers measures the floor, and costs of fresh processes are those of all
        with contextlib.ExitStack() as stack:
            processes = {engine: stack.enter_context(Process(engine, self.args)) for engine in ENGINES if engine in engines}
            processes = self.loaded(processes, context, about)
            rows = FLOOR_ROWS[self.args.device]
            floors = self.floor(processes, rows)
            result["floor"] = lowest(floors)
            result["weight_bytes"] = models.weight_bytes(self.folder)  # of float32, or as they are stored
            for key, question in questions.items():
                if time.monotonic() > self.args.deadline:
                    about["unasked"].append(f"{self.shape.name}, {self.dtype}: {question.text}")
                    continue
                print(f"{self.shape.name}, {self.dtype}: {question.text}", flush=True)
                result["ms"][key] = self.answers(question, key, processes)
                report()
            result["floor"] = lowest(floors + self.floor(processes, rows))
        fresh_too = "fresh" in self.args.questions if self.args.questions else self.args.device == "cpu"
        if self.dtype != "bfloat16" and fresh_too:
            result["fresh"] = self.fresh_costs(processes)


def report(args, results: dict, about: dict, shapes: dict, agreements: list) -> None:
    """The files that were asked for, of what is known so far."""
    if args.text:
        args.text.write_text(page.section(results, about, shapes, agreements) + "\n")
    if args.json:
        args.json.write_text(json.dumps({"about": about, "agreements": [dataclasses.asdict(a) for a in agreements],
                                         "results": {" ".join(key): value for key, value in results.items()}},
                                        indent=1, default=sorted))


def dtypes(shape: models.Shape, args) -> tuple:
    if shape.stored:
        return ("stored",)
    return ("float32",) if args.dtypes == "float32" else ("float32", "bfloat16")


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is on the disk is removed, then
    about = {"device": args.device, "threads": args.threads, "rounds": args.rounds, "quick": args.quick,
             "processor": page.processor(), "versions": {}, "instructions": set(), "devices": set(), "absent": {},
             "unasked": []}
    shapes = {shape.name: shape for shape in ALL_SHAPES
              if args.only in (None, shape.name) and (args.device == "cpu" or not shape.stored)}
    results, agreements = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        args.scratch = pathlib.Path(scratch)
        for shape in shapes.values():
            try:
                models.write(shape, models.place(shape, args.scratch))
            except (FileNotFoundError, ModuleNotFoundError) as error:
                about["unasked"].append(f"{shape.name} ({error})")
                continue
            for dtype in dtypes(shape, args):
                comparison = Comparison(shape, dtype, args, agreements)
                if time.monotonic() > args.deadline:
                    about["unasked"].append(f"{shape.name}, {dtype}")
                    continue
                results[shape.name, dtype] = comparison.result
                try:
                    comparison.run(about, lambda: report(args, results, about, shapes, agreements))
                except Failure as failure:
                    print(f"FAILED: {failure}", flush=True)
                    agreements.append(agreement.Agreement(f"{shape.name}, {dtype}", failure.engine, problems=[failure.reason]))
                report(args, results, about, shapes, agreements)
            for file in (*args.scratch.glob(f"{shape.name}-*.safetensors"), args.scratch / f"{shape.name}.gguf"):
                file.unlink(missing_ok=True)
    text = page.section(results, about, shapes, agreements)
    print("\n" + text)
    if args.write_docs:
        page.write(ROOT / "docs/speed.md", text)
    problems = [f"{a.question}, {a.engine}: {problem}" for a in agreements for problem in a.problems]
    for problem in problems:
        print("DISAGREES: " + problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
