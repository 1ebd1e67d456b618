#!/usr/bin/env python3
"""Times hooked beside transformers and TransformerLens on one machine, in one run, with compared results.

    pip install -r tests/golden/requirements.txt
    python benchmarks/compare_speed.py [--rounds N] [--threads N] [--program build/release/bin/hooked]

A random model of GPT-2-small's shape is written once and loaded by all three in float32. The programs take turns,
round after round, so that a machine that slows down slows all of them; ratios are taken within a round and their
median, minimum and maximum are printed. All-position logits throughout. A ratio above 1 in the columns that divide a
rival by hooked means that hooked is faster.
"""
import gc
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402
import transformer_lens  # noqa: E402

from comparison import arguments, hooked_json, spread  # noqa: E402

kSizes = ((1, 128), (4, 128))


def make_folder(folder: pathlib.Path) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.save_pretrained(folder)
    return model


def lens_model(model: GPT2LMHeadModel) -> "transformer_lens.HookedTransformer":
    config = model.config
    lens = transformer_lens.HookedTransformer(transformer_lens.HookedTransformerConfig(
        n_layers=config.n_layer, d_model=config.n_embd, n_ctx=config.n_positions, d_head=config.n_embd // config.n_head,
        n_heads=config.n_head, d_vocab=config.vocab_size, act_fn="gelu_new", device="cpu", eps=config.layer_norm_epsilon))
    from transformer_lens.pretrained.weight_conversions.gpt2 import convert_gpt2_weights
    lens.load_state_dict(convert_gpt2_weights(model, lens.cfg), strict=False)
    return lens.eval()


def median_ms(work, iterations: int) -> float:
    times = []
    for _ in range(iterations):
        start = time.perf_counter()
        kept = work()
        times.append(1e3 * (time.perf_counter() - start))
        del kept
    return statistics.median(times)


def hooked_bench(folder: pathlib.Path, batch: int, length: int, args) -> dict:
    return hooked_json(args.program, "bench", folder, "--no-processing", "--batch", batch, "--length", length,
                       "--iterations", args.iterations, "--threads", args.threads)


def largest_difference(program: str, folder: pathlib.Path, model, lens, tokens, scratch: pathlib.Path) -> None:
    save_file({"tokens": tokens}, scratch / "tokens.safetensors")
    subprocess.run([program, "cache", str(folder), "--no-processing", "--tokens-file", str(scratch / "tokens.safetensors"),
                    "--out", str(scratch / "cache.safetensors")], check=True, capture_output=True)
    ours = load_file(scratch / "cache.safetensors")
    logits, cache = lens.run_with_cache(tokens)
    theirs = model(tokens).logits
    worst = max(((ours[name] - value).nan_to_num(0, 0, 0).abs().max().item(), name)
                for name, value in cache.items() if name in ours)
    print(f"logits: largest difference to transformers {(ours['logits'] - theirs).abs().max():.2g}, "
          f"to TransformerLens {(ours['logits'] - logits).abs().max():.2g} (largest logit {theirs.abs().max():.2g}); "
          f"{len([n for n in cache if n in ours])} activations, largest difference {worst[0]:.2g} at {worst[1]}")


@torch.no_grad()
def main() -> None:
    args = arguments(__doc__, iterations=10)
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = scratch / "model"
        model = make_folder(folder)
        lens = lens_model(model)
        largest_difference(args.program, folder, model, lens, torch.randint(0, model.config.vocab_size, (1, 128)), scratch)
        for batch, length in kSizes:
            tokens = torch.randint(0, model.config.vocab_size, (batch, length))
            rounds = []
            for _ in range(args.rounds):
                gc.collect()
                ours = hooked_bench(folder, batch, length, args)
                rounds.append({
                    "plain": ours["plain_ms"]["median"], "cache": ours["cache_ms"]["median"],
                    "transformers": median_ms(lambda: model(tokens).logits, args.iterations),
                    "lens_cache": median_ms(lambda: lens.run_with_cache(tokens), args.iterations),
                })
            print(f"\n{batch} x {length}, float32, {args.threads} threads, {args.rounds} rounds: median (min to max)")
            for name in rounds[0]:
                print(f"  {name:<34} {spread([r[name] for r in rounds])} ms")
            for name, above, below in (("run_with_cache / plain", "cache", "plain"),
                                       ("plain / transformers", "plain", "transformers"),
                                       ("TransformerLens / run_with_cache", "lens_cache", "cache")):
                print(f"  {name:<34} {spread([r[above] / r[below] for r in rounds])}")


if __name__ == "__main__":
    main()
