"""Compares hooked with its oracles, case by case, in float64 on tiny random models.

Each case is built with random parameters, saved, run by `hooked cache` raw and processed, and compared: every activation
that the oracle gives, logits, log-probabilities after default processing, and a greedy continuation. Printed is
max|difference| / max(1, max|value|) by kind of point, and for logits max|difference| / max|logit|.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

from . import padding
from .case_files import kInputs, kRoot, write_folder
from .cases import chosen

kTolerance = 1e-9
kProgram = str(kRoot / "build/release/bin/hooked")
kNoPoints = (*kInputs, "logits", "residual", "greedy")  # what a record holds in addition to activations


def run_hooked(program, folder, expected, *options) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        tokens_file, out = f"{scratch}/tokens.safetensors", f"{scratch}/cache.safetensors"
        save_file({name: expected[name] for name in kInputs if name in expected}, tokens_file)
        done = subprocess.run([program, "cache", folder, "--tokens-file", tokens_file, "--dtype", "float64", "--out", out,
                               "--names", "*", *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
        return load_file(out)


def generated(program, folder, prompt, count, *options) -> torch.Tensor:
    """The likeliest next `count` tokens, [pos]."""
    done = subprocess.run([program, "generate", folder, "--tokens", ",".join(map(str, prompt[0].tolist())), "--greedy",
                           "--no-stop-tokens", "--max-new-tokens", str(count), "--dtype", "float64", "--json", *options],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return torch.tensor(json.loads(done.stdout)["rows"][0]["ids"])


def without_padding(expected, name, value) -> torch.Tensor:
    """With 0 in rows of padding."""
    left_out = padding.of_activation(expected, name, value)
    return value if left_out is None else value.masked_fill(left_out, 0)


def difference(expected, name, ours) -> float:
    theirs = expected[name]
    ours, theirs = (without_padding(expected, name, x.double()) for x in (ours.reshape(theirs.shape), theirs))
    if not torch.equal(ours.isinf(), theirs.isinf()):
        return float("inf")
    ours, theirs = (x.masked_fill(x.isinf(), 0) for x in (ours, theirs))
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0)).item() if theirs.numel() else 0.0


def compare(folder, expected, program) -> dict:
    """Largest difference by kind of point."""
    worst = {}

    def note(kind, value):
        worst[kind] = max(worst.get(kind, 0.0), float("inf") if value != value else value)  # NaN never agrees

    def kept(logits):
        return without_padding(expected, "logits", logits)

    raw = run_hooked(program, folder, expected, "--no-processing")
    if "logits" in expected:
        theirs = kept(expected["logits"])
        note("logits", ((kept(raw["logits"]) - theirs).abs().max() / theirs.abs().max()).item())
    elif "logits" in raw:
        raise RuntimeError("logits of a model without a head")
    for name in expected:
        if name not in kNoPoints:
            note(name.rpartition(".")[2], difference(expected, name, raw[name]))
    processed = run_hooked(program, folder, expected)
    if "logits" in expected:
        ours, theirs = (kept(x).log_softmax(-1) for x in (processed["logits"], expected["logits"]))
        note("processed", (ours - theirs).abs().max().item())
    else:  # then processing must leave the stream alone
        last = max(name for name in expected if name.endswith(("hook_normalized_resid_post", "hook_resid_post")))
        note("processed", difference(expected, last, processed[last]))
    if "greedy" in expected:
        row, prompt = expected["greedy"], expected["tokens"][:1]
        start = 1 if "decoder_tokens" in expected else prompt.shape[1]  # a decoder's own row begins with one token
        if start == 1:  # the oracle has no rules of generation, and config.json may have some of its class
            rules = {"decoder_start_token_id": int(row[0, 0])}
            pathlib.Path(folder, "generation_config.json").write_text(json.dumps(rules))
        for options in (("--no-processing",), ()):
            predicted = generated(program, folder, prompt, row.shape[1] - start, *options)
            note("greedy", float((predicted != row[0, start:]).sum()))
    return worst


def is_good(worst: dict) -> bool:
    return all(value <= kTolerance for value in worst.values())


def shown(worst: dict) -> str:
    return "  ".join(f"{kind.removeprefix('hook_')} {value:.1e}" for kind, value in worst.items())


def main(arguments: list) -> int:
    parser = argparse.ArgumentParser(prog="make.py compare", description=__doc__)
    parser.add_argument("globs", nargs="*")
    parser.add_argument("--program", default=kProgram)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    failed = 0
    for maker in chosen(options.globs):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                golden = maker.make()
                folder = pathlib.Path(scratch) / golden.case
                write_folder(folder, golden)
                worst = compare(folder, golden.outputs, options.program)
            except Exception as error:  # every case is shown, whatever happens to one
                if os.environ.get("GOLDEN_TRACE"):
                    raise
                failed += 1
                print(f"{maker.case:24} FAILED  {type(error).__name__}: {error}", flush=True)
                continue
        failed += not is_good(worst)
        print(f"{maker.case:24} {'ok    ' if is_good(worst) else 'DIFFERS'}  {shown(worst)}", flush=True)
    print(f"{failed} failed", file=sys.stderr)
    return 1 if failed else 0
