#!/usr/bin/env python3
"""Times greedy generation of hooked beside transformers, in one run, with compared tokens.

    pip install -r tests/golden/requirements.txt
    python benchmarks/compare_generation.py [--rounds N] [--new-tokens N] [--threads N] [--program build/release/bin/hooked]

A random model of GPT-2-small's shape in float32, a prompt of 32 tokens. The programs take turns. A step's time is that of a
whole generation without the prompt's share, over its steps; for both the prompt's share is the time of the first token.
"""
import os
import tempfile
import time

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

from comparison import arguments, hooked_json, spread  # noqa: E402


def theirs(model, prompt, new_tokens: int):
    def run(count: int):
        start = time.perf_counter()
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=count,
                             min_new_tokens=count, pad_token_id=0)
        return time.perf_counter() - start, out[0, prompt.shape[1]:].tolist()

    first, _ = run(1)
    whole, ids = run(new_tokens)
    return 1e3 * (whole - first) / (new_tokens - 1), ids


def ours(folder, prompt, args):
    result = hooked_json(args.program, "generate", folder, "--no-processing", "--tokens",
                         ",".join(map(str, prompt[0].tolist())), "--greedy", "--no-stop-tokens", "--max-new-tokens",
                         args.new_tokens, "--threads", args.threads)
    return 1e3 * result["seconds"]["decode"] / (args.new_tokens - 1), result["ids"]


def kept(folder, args) -> float:
    result = hooked_json(args.program, "bench", folder, "--no-processing", "--length", 32, "--iterations", 40,
                         "--threads", args.threads)
    return result["decode_cache_ms"]["median"] / result["decode_ms"]["median"]


@torch.no_grad()
def main() -> None:
    args = arguments(__doc__, new_tokens=64)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    # Random weights repeat themselves; larger ones make different tokens likely.
    for parameter in model.parameters():
        parameter.mul_(3) if parameter.dim() > 1 else None
    prompt = torch.randint(0, model.config.vocab_size, (1, 32))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        rounds = []
        for _ in range(args.rounds):
            theirs_ms, theirs_ids = theirs(model, prompt, args.new_tokens)
            ours_ms, ours_ids = ours(folder, prompt, args)
            rounds.append((theirs_ms, ours_ms, kept(folder, args), theirs_ids == ours_ids))
    print(f"{args.new_tokens} tokens after 32, {len(set(theirs_ids))} different, float32, {args.threads} threads, {args.rounds} "
          f"rounds: median (min to max)")
    print(f"  transformers, a step           {spread([r[0] for r in rounds])} ms")
    print(f"  hooked, a step                 {spread([r[1] for r in rounds])} ms")
    print(f"  transformers / hooked          {spread([r[0] / r[1] for r in rounds])}")
    print(f"  keeping resid_post / not       {spread([r[2] for r in rounds])}")
    print(f"  greedy tokens equal            {all(r[3] for r in rounds)}")


if __name__ == "__main__":
    main()
