#!/usr/bin/env python3
"""Compares hooked with transformers, family by family, in float64 on tiny random models.

Checkpoints of training code (TransformerLens, nanoGPT, minGPT) are compared with TransformerLens and with definitions
in scripts/parity_cases/training_scripts.py.

    pip install -r scripts/requirements-goldens.txt
    python scripts/parity.py [CASE-GLOB ...] [--program build/release/bin/hooked] [--write]

Each case of scripts/parity_cases (table.py, encoder_decoders.py, training_scripts.py) is built with random parameters, saved, run
by `hooked cache` raw and processed, and compared: logits, residual stream, attention patterns, head outputs, neurons,
and a greedy continuation of 20 tokens. The table shows max|difference| / max(1, max|value|), and for logits max|difference| / max|logit|.
With --write the golden cases are (re)written to tests/golden/families, which the ordinary tests run without Python.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from parity_cases import record as from_transformers  # noqa: E402
from parity_cases import encoder_decoders  # noqa: E402
from parity_cases import training_scripts  # noqa: E402
from parity_cases.table import kCases  # noqa: E402

kRoot = pathlib.Path(__file__).resolve().parent.parent
kGoldens = kRoot / "tests" / "golden" / "families"
kTolerance = 1e-9
kInputs = ("tokens", "attention_mask", "token_type_ids", "decoder_tokens", "decoder_attention_mask")
kNoPoints = (*kInputs, "logits", "greedy")  # what a record holds besides activations


def run_hooked(program, folder, expected, *options) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        tokens_file, out = f"{scratch}/tokens.safetensors", f"{scratch}/cache.safetensors"
        save_file({name: expected[name] for name in kInputs if name in expected}, tokens_file)
        done = subprocess.run([program, "cache", folder, "--tokens-file", tokens_file, "--dtype", "float64", "--out", out,
                               *options], capture_output=True, text=True, check=False)
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
    return torch.tensor(json.loads(done.stdout)["ids"])


def difference(ours, theirs) -> float:
    if ours.shape != theirs.shape:
        ours = ours.reshape(theirs.shape)
    return ((ours - theirs).double().abs().max() / theirs.double().abs().max().clamp_min(1.0)).item()


def compare(case, folder, expected, program) -> dict:
    """Largest difference by kind of point."""
    worst = {}

    def note(kind, value):
        worst[kind] = max(worst.get(kind, 0.0), value)

    raw = run_hooked(program, folder, expected, "--no-processing")
    if "logits" in expected:
        note("logits", ((raw["logits"] - expected["logits"]).abs().max() / expected["logits"].abs().max()).item())
    elif "logits" in raw:
        raise RuntimeError("logits of a model without a head")
    for name in [name for name in expected if name.endswith("hook_resid_post")]:
        normed = name.replace("hook_resid_post", "hook_normalized_resid_post")
        if normed in raw:  # with norms after the additions, what a layer returns is the normed stream
            expected[normed] = expected.pop(name)
    for name, value in expected.items():
        if name not in kNoPoints:
            note(name.rpartition(".")[2], difference(raw[name], value))
    processed = run_hooked(program, folder, expected)
    if "logits" in expected:
        note("processed", (processed["logits"].log_softmax(-1) - expected["logits"].log_softmax(-1)).abs().max().item())
    else:  # then processing must leave the stream alone
        last = max(name for name in expected if name.endswith("hook_normalized_resid_post"))
        note("processed", difference(processed[last], expected[last]))
    if "greedy" in expected:
        row, prompt = expected["greedy"], expected["tokens"][:1]
        start = 1 if "decoder_tokens" in expected else prompt.shape[1]  # a decoder's own row begins with one token
        for options in (("--no-processing",), ()):
            predicted = generated(program, folder, prompt, row.shape[1] - start, *options)
            note("greedy", float((predicted != row[0, start:]).sum()))
    return worst


def is_good(worst: dict) -> bool:
    return all(value <= kTolerance for value in worst.values())


def write_golden(case, oracle, folder, expected, worst) -> None:
    target = kGoldens / case.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    save_file({name: value for name, value in sorted(expected.items())}, target / "golden.safetensors")
    for file in target.rglob("*"):
        if file.is_file():
            file.chmod(0o644)
    index_file = kGoldens / "index.json"
    index = json.loads(index_file.read_text()) if index_file.exists() else {}
    index[case.name] = dict(model_type=case.model_type, oracle=oracle, compared=sorted(worst))
    index_file.write_text(json.dumps(dict(sorted(index.items())), indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("globs", nargs="*")
    parser.add_argument("--program", default=str(kRoot / "build/release/bin/hooked"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    from_hub = f"transformers {transformers.__version__}"
    rows = [(case, from_transformers, from_hub) for case in kCases]
    rows += [(case, encoder_decoders, from_hub) for case in encoder_decoders.kTwoStackCases]
    rows += [(case, training_scripts, case.oracle) for case in training_scripts.kScriptCases]
    for case, source, oracle in rows:
        if options.globs and not any(fnmatch.fnmatch(case.name, glob) for glob in options.globs):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / case.name
            try:
                model, expected = source.record(case)
                source.write_folder(model, case, folder)
                worst = compare(case, folder, expected, options.program)
            except Exception as error:  # every case is shown, whatever happens to one
                if os.environ.get("PARITY_TRACE"):
                    raise
                worst = None
                print(f"{case.name:24} FAILED  {type(error).__name__}: {error}", flush=True)
            if worst is not None:
                text = "  ".join(f"{kind.removeprefix('hook_')} {value:.1e}" for kind, value in worst.items())
                print(f"{case.name:24} {'ok    ' if is_good(worst) else 'DIFFERS'}  {text}", flush=True)
            failed += worst is None or not is_good(worst)
            if options.write and case.golden and worst is not None and is_good(worst):
                write_golden(case, oracle, folder, expected, worst)
    print(f"{failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
