"""Processes that hold one engine each and answer one command at a time."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
TITLES = {"hooked": "hooked", "transformers": "transformers", "transformer_lens": "TransformerLens", "nnsight": "nnsight",
          "hooked_python": "hooked in Python", "llama_cpp": "llama.cpp"}


class Failure(RuntimeError):
    """What a process could not do."""

    def __init__(self, engine: str, reason: str, text: str):
        super().__init__(text)
        self.engine, self.reason = engine, reason

    @property
    def absent(self) -> bool:
        """Whether a package is not installed."""
        return self.reason.startswith(("ModuleNotFoundError", "ImportError"))


class Process:
    """An engine in a process of its own, from its start to the end of a `with`."""

    def __init__(self, engine: str, args):
        self.engine = engine
        command = [args.runner] if engine == "hooked" else [sys.executable, "-m", "rivals.serve", engine]
        environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "MKL_NUM_THREADS": str(args.threads),
                       "PYTHONPATH": os.pathsep.join(filter(None, (str(BENCHMARKS), os.environ.get("PYTHONPATH")))),
                       "TOKENIZERS_PARALLELISM": "false", "NVIDIA_TF32_OVERRIDE": "0"}  # float32 is float32, for everybody
        self.started = time.perf_counter()
        self.errors = open(args.scratch / f"{engine}.log", "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=environment)

    def ask(self, **command) -> dict:
        self.tell(**command)
        return self.answer()

    def tell(self, **command) -> None:
        self.told = command
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()

    def answer(self) -> dict:
        """To what it was told. An error or a dead process is a Failure."""
        line = self.process.stdout.readline()
        reply = json.loads(line) if line else {"error": "the process ended"}
        if "error" in reply:
            tail = pathlib.Path(self.errors.name).read_text(errors="replace")[-3000:]
            raise Failure(self.engine, reply["error"], f"{TITLES[self.engine]}, {self.told}: {reply['error']}\n{tail}")
        return reply

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *exception) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def fresh(engine: str, args, *commands) -> dict:
    """What commands cost in a process that only lives for them: seconds from its start to the last answer, and the peaks of
    its resident memory in bytes before the first and after the last command."""
    with Process(engine, args) as process:
        before = process.ask(do="peak")["bytes"]
        for command in commands:
            process.ask(**command)
        seconds = time.perf_counter() - process.started
        return {"seconds": seconds, "bytes": process.ask(do="peak")["bytes"], "bytes_before": before}
