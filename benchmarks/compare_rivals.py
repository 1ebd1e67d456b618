#!/usr/bin/env python3
"""Times hooked beside transformers, TransformerLens and nnsight on one machine, in one run, with compared results.

    python3 -m venv .venv && .venv/bin/pip install -r tests/golden/requirements.txt -r benchmarks/requirements.txt
    cmake --build --preset release --target bench_rival_runner
    .venv/bin/python benchmarks/compare_rivals.py [--quick] [--rounds N] [--threads N] [--write-docs] [--json FILE]

Random models of two shapes are written as folders of Hugging Face, and everybody loads them without weight processing, in a
process of its own that stays alive, with equal threads. Question by question (rivals/questions.py) the processes first write
what they computed, which is compared (rivals/agreement.py), then take turns, round after round: a machine that slows down
slows all of them. Ratios are taken within a round. What the machine itself allows is measured in the same run.

Fails (exit status 1) when somebody computed something else, whoever was faster. Targets that are missed are shown, no more.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

from safetensors.torch import save_file  # noqa: E402

from rivals import agreement, models, page  # noqa: E402
from rivals.process import Process, fresh  # noqa: E402
from rivals.questions import ALL, LENS, PROMPT, asked  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TURN_MS = 300  # a turn repeats a run until it takes about as long, at most REPEATS times
REPEATS = 10
FRESH_ROUNDS = 3
FLOOR_ROWS = (16, 128, 512, 1024)  # tokens; the first two with --quick


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, help="turns of every process; 7, with --quick 2")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="few rounds and no questions that take minutes")
    parser.add_argument("--only", choices=[shape.name for shape in models.SHAPES], help="one shape")
    parser.add_argument("--dtypes", choices=("float32", "both"), default="both")
    parser.add_argument("--questions", help="keys of rivals/questions.py, with commas, and `fresh` for costs of fresh processes; all")
    parser.add_argument("--write-docs", action="store_true", help="write the tables of docs/speed.md")
    parser.add_argument("--json", type=pathlib.Path, help="write everything to this file")
    parser.add_argument("--runner", default=str(ROOT / "build/release/bin/bench_rival_runner"))
    args = parser.parse_args()
    args.rounds = args.rounds or (2 if args.quick else 7)
    return args


def lowest(first: dict, last: dict) -> dict:
    """Of what the machine allowed before and after the questions: the better."""
    products = [{**a, **{kind: min(a[kind], b[kind]) for kind in ("linear_ms", "one_dnn_ms")}}
                for a, b in zip(first["products"], last["products"])]
    return {**first, "products": products, "read_gb_per_s": max(first["read_gb_per_s"], last["read_gb_per_s"])}


class Comparison:
    """All questions to one shape in one dtype."""

    def __init__(self, shape: models.Shape, dtype: str, args):
        self.shape, self.dtype, self.args = shape, dtype, args
        self.folder = args.scratch / shape.name
        self.agreements = []

    def tokens(self, batch: int, length: int) -> str:
        path = self.args.scratch / f"tokens_{batch}x{length}.safetensors"
        if not path.exists():
            save_file({"tokens": models.tokens(self.shape, batch, length)}, path)
        return str(path)

    def outcome(self, key: str, engine: str, dtype: str) -> str:
        return str(self.args.scratch / f"{self.shape.name}-{key}-{engine}-{dtype}.safetensors")

    def load_command(self, context: int) -> dict:
        return {"do": "load", "folder": str(self.folder), "dtype": self.dtype, "threads": self.args.threads, "context": context}

    def agree(self, key: str, question, processes: dict) -> None:
        """Everybody writes what they compute; ours in float32 is kept for bfloat16."""
        files = {}
        for engine in question.engines:
            files[engine] = self.outcome(key, engine, self.dtype)
            processes[engine].ask(**question.command, tokens=self.tokens(question.batch, question.length), repeats=0,
                                  write=files[engine])
        decodes = question.command["do"] == "decode"
        if len(files) > 1 and self.dtype == "float32":
            columns = PROMPT + question.command["new_tokens"] - 1 if decodes else None
            found = [agreement.float32(question.text, e, files["hooked"], files[e], columns) for e in files if e != "hooked"]
        elif len(files) > 1:
            columns = PROMPT if decodes else None
            found = agreement.bfloat16(question.text, self.outcome(key, "hooked", "float32"), files, columns)
        else:
            found = []
        for one in found:
            print("  " + one.text, flush=True)
        self.agreements += found
        for engine, file in files.items():
            if engine != "hooked" or self.dtype != "float32":
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

    def fresh_costs(self) -> dict:
        """Loading, a first run, and memory, each in processes of their own that take turns."""
        tokens = {length: self.tokens(1, length) for length in (128, 1024)}
        load = self.load_command(1024)
        kinds = {"load": (ALL, [load]),
                 "first_run": (ALL, [load, {"do": "forward", "tokens": tokens[128], "repeats": 1}]),
                 "keep": (LENS, [load, {"do": "cache", "points": "defaults", "tokens": tokens[1024], "repeats": 1}])}
        costs = {kind: {engine: [] for engine in engines} for kind, (engines, _) in kinds.items()}
        for _ in range(1 if self.args.quick else min(self.args.rounds, FRESH_ROUNDS)):
            for kind, (engines, commands) in kinds.items():
                for engine in engines:
                    costs[kind][engine].append(fresh(engine, self.args, *commands))
        return costs

    def run(self, about: dict) -> dict:
        questions = asked(self.shape.name, self.dtype, self.args.quick)
        if self.args.questions:
            questions = {key: q for key, q in questions.items() if key in self.args.questions.split(",")}
        context = max((q.length for q in questions.values()), default=0)
        context = min(self.shape.context, max(context, 1024))
        result = {"ms": {}, "fresh": {}}
        with contextlib.ExitStack() as stack:
            processes = {engine: stack.enter_context(Process(engine, self.args)) for engine in ALL}
            for engine, process in processes.items():
                loaded = process.ask(**self.load_command(context))
                about["versions"] |= loaded["versions"]
                about["instructions"].add(loaded["instructions"])
                assert loaded["threads"] == self.args.threads, loaded
            rows = FLOOR_ROWS[:2] if self.args.quick else FLOOR_ROWS
            floors = [processes["transformers"].ask(do="floor", rows=rows)]
            result["weight_bytes"] = (self.folder / "model.safetensors").stat().st_size  # of float32
            for key, question in questions.items():
                print(f"{self.shape.name}, {self.dtype}: {question.text}", flush=True)
                self.agree(key, question, processes)
                result["ms"][key] = self.times(question, processes)
            floors.append(processes["transformers"].ask(do="floor", rows=rows))
            result["floor"] = lowest(*floors)
        if self.dtype == "float32" and (not self.args.questions or "fresh" in self.args.questions.split(",")):
            result["fresh"] = self.fresh_costs()
        return result


def main() -> int:
    args = arguments()
    about = {"threads": args.threads, "rounds": args.rounds, "quick": args.quick, "processor": page.processor(),
             "versions": {}, "instructions": set()}
    shapes = {shape.name: shape for shape in models.SHAPES if args.only in (None, shape.name)}
    results, agreements = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        args.scratch = pathlib.Path(scratch)
        for shape in shapes.values():
            models.write(shape, args.scratch / shape.name)
            for dtype in ("float32",) if args.dtypes == "float32" else ("float32", "bfloat16"):
                comparison = Comparison(shape, dtype, args)
                results[shape.name, dtype] = comparison.run(about)
                agreements += comparison.agreements
            for file in args.scratch.glob(f"{shape.name}-*.safetensors"):
                file.unlink()
    about["instructions"] = sorted(about["instructions"])
    text = page.section(results, about, shapes, agreements)
    print("\n" + text)
    if args.write_docs:
        page.write(ROOT / "docs/speed.md", text)
    if args.json:
        args.json.write_text(json.dumps({"about": about, "agreements": [dataclasses.asdict(a) for a in agreements],
                                         "results": {" ".join(key): value for key, value in results.items()}}, indent=1))
    problems = [f"{a.question}, {a.engine}: {problem}" for a in agreements for problem in a.problems]
    for problem in problems:
        print("DISAGREES: " + problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
