#!/usr/bin/env python3
"""What does another busy process cost? GPT-2-small's shape, alone, next to one busy process and, with --steps, twice at once.

  benchmarks/busy_machine.py [--rounds N] [--threads N] [--program FILE] [--tokens N]
      `hooked run` (load, process, one short run), in alternation, with as many threads as the machine has processors and with one.
      Prints seconds, and the ratio of the medians.
  benchmarks/busy_machine.py --steps [--rounds N] [--runs N]
      Runs and steps of a C++ program (busy_machine.cc). Prints the median and the longest in milliseconds, and their ratios to alone.
      Three busy threads on two processors have 2/3 of one each: 1.33 times as long is a fair share, 2 times for two programs at once.
"""
import argparse
import array
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile
import time

LAYERS, WIDTH, VOCABULARY, CONTEXT = 12, 768, 50257, 1024


def shapes() -> dict:
    """The tensors of a GPT-2-small checkpoint."""
    all_shapes = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH), "ln_f.weight": (WIDTH,),
                  "ln_f.bias": (WIDTH,)}
    for layer in range(LAYERS):
        for name, shape in {"ln_1": (WIDTH,), "ln_2": (WIDTH,), "attn.c_attn": (WIDTH, 3 * WIDTH),
                            "attn.c_proj": (WIDTH, WIDTH), "mlp.c_fc": (WIDTH, 4 * WIDTH),
                            "mlp.c_proj": (4 * WIDTH, WIDTH)}.items():
            all_shapes[f"h.{layer}.{name}.weight"] = shape
            all_shapes[f"h.{layer}.{name}.bias"] = shape[-1:]
    return all_shapes


def write_checkpoint(folder: pathlib.Path) -> None:
    """Random numbers: one stretch of them, over and over."""
    config = {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": WIDTH, "n_head": 12, "n_positions": CONTEXT,
              "n_ctx": CONTEXT, "vocab_size": VOCABULARY}
    (folder / "config.json").write_text(json.dumps(config))
    draw = random.Random(0)
    stretch = array.array("f", (draw.gauss(0, 0.02) for _ in range(1 << 18))).tobytes()
    header, end = {}, 0
    for name, shape in shapes().items():
        begin, end = end, end + 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(end // len(stretch)):
            file.write(stretch)
        file.write(stretch[:end % len(stretch)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"rounds": 5, "tokens": 3, "threads": os.cpu_count()}.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--program", default="build/release/bin/hooked")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--runs", type=int, default=200)
    return parser.parse_args()


def spread(values) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy_process():
    busy = multiprocessing.Process(target=spin, daemon=True)
    busy.start()
    try:
        yield
    finally:
        busy.kill()
        busy.join()


def seconds(command) -> float:
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def runs_and_steps(runs: int, at_once: int = 1) -> dict:
    """For each question of bench_busy_machine the median and the longest, the worst of several at once."""
    started = [subprocess.Popen(["build/release/bin/bench_busy_machine", str(runs), str(runs)], stdout=subprocess.PIPE, text=True)
               for _ in range(at_once)]
    found = {}
    for program in started:
        text, _ = program.communicate()
        for question, *times in (line.split("\t") for line in text.splitlines()):
            found[question] = [max(pair) for pair in zip(found.get(question, [0.0, 0.0]), map(float, times))]
    return found


def compare_steps(args) -> None:
    states = {"alone": [], "next to a busy process": [], "two at once": []}
    for _ in range(args.rounds):
        states["alone"].append(runs_and_steps(args.runs))
        with busy_process():
            states["next to a busy process"].append(runs_and_steps(args.runs))
        states["two at once"].append(runs_and_steps(args.runs, 2))
    for question in states["alone"][0]:
        alone = statistics.median(found[question][0] for found in states["alone"])
        for state, rounds in states.items():
            median = statistics.median(found[question][0] for found in rounds)
            longest = max(found[question][1] for found in rounds)
            print(f"{question}, {state}: {median:.1f} ms ({median / alone:.2f}), longest {longest:.1f} ({longest / alone:.1f})")


def main() -> None:
    args = arguments()
    if args.steps:
        return compare_steps(args)
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(pathlib.Path(folder))
        tokens = ",".join(str(7 * i + 1) for i in range(args.tokens))
        command = [args.program, "run", folder, "--tokens", tokens, "--threads"]
        times = {}
        for _ in range(args.rounds):
            for threads in sorted({1, args.threads}):
                for state in ("alone", "busy"):
                    with busy_process() if state == "busy" else contextlib.nullcontext():
                        times.setdefault((threads, state), []).append(seconds([*command, str(threads)]))
    for threads in sorted({1, args.threads}):
        alone, beside = times[threads, "alone"], times[threads, "busy"]
        print(f"{threads} threads: alone {spread(alone)} s, next to a busy process {spread(beside)} s, "
              f"ratio {sorted(beside)[len(beside) // 2] / sorted(alone)[len(alone) // 2]:.2f}")


if __name__ == "__main__":
    main()
