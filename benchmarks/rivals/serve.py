"""A rival as a process: `python -m rivals.serve transformers|transformer_lens|nnsight|hooked_python`.

It is told over stdin what to run, one JSON object a line, and answers with one JSON object a line, as rival_runner.cc does:

  load     folder, dtype, weights, threads, context, device   a model, without weight processing
  peak                                          the peak of the process's resident memory, in bytes
  floor    rows                                 what the machine itself allows (floor.py)
and, with `tokens` (a file), `repeats` and, where the results are wanted, `write` (a file):
  forward                                       logits of every position
  cache    points                               logits and activations: `defaults`, or names of sites
  read_cache                                    the same with the defaults, each of them read: hooked computes some when they are read
  until    layer                                the stream that the layer reads
  harvest  layer                                the stream after the layer before; the run ends there
  store    layer                                the same of all rows, a few a run, written to a disk
  decode   new_tokens, keep                     a greedy generation, without or with the stream after every layer
  edit_rows  layer, step, edited                row r of what the layer reads is r × step larger; logits at the last position
  attribution  answer, against                  rows are clean and corrupted: (clean - corrupted) · d metric / d corrupted of what
                                                each layer reads, [layer, pos]; metric: difference of two logits at the end
  hooks    called                               logits, with or without a function of Python at each default point
  sweep    preset, every, answer, against       rows are clean and corrupted: that metric for every cell of a preset, of which every
                                                so many-th are wanted, flat
Results have TransformerLens's names. A rival's tokens lie on its device before its time begins; a time ends when the device has
done all that it was given.
"""
import gc
import importlib
import json
import os
import pathlib
import sys
import time


def versions(*packages) -> dict:
    from importlib.metadata import version
    return {package: version(package) for package in packages}


def load(engine: str, command: dict):
    started = time.perf_counter()
    rival = importlib.import_module(f"rivals.{engine}_engine")
    import torch
    torch.set_num_threads(command["threads"])
    torch.set_grad_enabled(False)
    model = rival.Engine(command["folder"], getattr(torch, command["dtype"]), command["context"], command["device"])
    synchronise(command["device"])
    return model, {"ms": [1e3 * (time.perf_counter() - started)], "threads": torch.get_num_threads(),
                   "versions": versions("torch", *rival.Engine.packages),
                   "about": getattr(model, "about", {}),
                   "instructions": torch.backends.cpu.get_cpu_capability(),
                   "device": device_name(command["device"])}


def device_name(device: str) -> str:
    import torch
    return device if device == "cpu" else f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"


def synchronise(device: str) -> None:
    if device != "cpu":
        import torch
        torch.cuda.synchronize()


def run(model, device: str, command: dict) -> dict:
    from safetensors.torch import load_file, save_file
    command = dict(command)
    work = getattr(model, command.pop("do"))
    tokens = load_file(command.pop("tokens"))["tokens"].to(device)
    repeats, write = command.pop("repeats"), command.pop("write", None)
    if write:
        save_file({name: (value if value.dtype.is_floating_point is False else value.float()).detach().cpu().contiguous().clone()
                   for name, value in work(tokens, **command).items()}, write)
    ms = []
    gc.collect()
    gc.disable()
    synchronise(device)
    for _ in range(repeats):
        started = time.perf_counter()
        kept = work(tokens, **command)
        synchronise(device)
        del kept
        ms.append(1e3 * (time.perf_counter() - started))
    gc.enable()
    return {"ms": ms}


def peak() -> dict:
    """Not getrusage's ru_maxrss: a process begins with that of the one that started it."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return {"bytes": 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))}


def main() -> None:
    model, device = None, "cpu"
    answers = os.fdopen(os.dup(1), "w")  # what libraries print goes elsewhere
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["do"] == "load":
                model, reply = load(sys.argv[1], command)
                device = command["device"]
            elif command["do"] == "peak":
                reply = peak()
            elif command["do"] == "floor":
                from rivals.floor import floor
                reply = floor(model.model, command["rows"], device)
            else:
                reply = run(model, device, command)
        except Exception as error:  # whatever it is, the one who asked shall say so
            import traceback
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
