#!/usr/bin/env python3
"""What does another busy process cost? Times `hooked run` (load, process, one short run) of a GPT-2-small-shaped model
alone, beside one busy process, and again alone, in alternation, with as many threads as the machine has processors and
with one. Prints seconds, and the ratio of the medians.

  benchmarks/busy_machine.py [--rounds N] [--threads N] [--program FILE] [--tokens N]
"""
import argparse
import array
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
    return parser.parse_args()


def spread(values) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def spin() -> None:
    while True:
        pass


def seconds(command) -> float:
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def main() -> None:
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(pathlib.Path(folder))
        tokens = ",".join(str(7 * i + 1) for i in range(args.tokens))
        command = [args.program, "run", folder, "--tokens", tokens, "--threads"]
        times = {}
        for _ in range(args.rounds):
            for threads in sorted({1, args.threads}):
                for state in ("alone", "busy"):
                    busy = multiprocessing.Process(target=spin, daemon=True)
                    if state == "busy":
                        busy.start()
                    times.setdefault((threads, state), []).append(seconds([*command, str(threads)]))
                    if state == "busy":
                        busy.kill()
                        busy.join()
    for threads in sorted({1, args.threads}):
        alone, beside = times[threads, "alone"], times[threads, "busy"]
        print(f"{threads} threads: alone {spread(alone)} s, next to a busy process {spread(beside)} s, "
              f"ratio {sorted(beside)[len(beside) // 2] / sorted(alone)[len(alone) // 2]:.2f}")


if __name__ == "__main__":
    main()
