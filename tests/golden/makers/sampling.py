"""Makes tests/golden/sampling: what transformers' logits processors and warpers do to random logits, in float64.

`logits` [batch, vocab] and `tokens` [batch, pos] are the same for every case; index.json has one row per case with
the options as GenerateOptions names them, and `expected.<case>` is what the chain of processors makes of the logits.
"""

import json

import torch
from safetensors.torch import save_file
from transformers.generation import logits_process as processors

from .case_files import kGoldens

kFolder = kGoldens / "sampling"

# In the order in which transformers' generate applies them.
kProcessors = {
    "repetition_penalty": processors.RepetitionPenaltyLogitsProcessor,
    "temperature": processors.TemperatureLogitsWarper,
    "top_k": processors.TopKLogitsWarper,
    "top_p": processors.TopPLogitsWarper,
    "min_p": processors.MinPLogitsWarper,
}

kCases = {
    "plain": {},
    "temperature_low": {"temperature": 0.3},
    "temperature_high": {"temperature": 2.5},
    "top_1": {"top_k": 1},
    "top_7": {"top_k": 7},
    "top_k_beyond_the_vocabulary": {"top_k": 1000},
    "nucleus_small": {"top_p": 0.05},
    "nucleus": {"top_p": 0.7},
    "nucleus_large": {"top_p": 0.999},
    "min_p": {"min_p": 0.1},
    "min_p_1": {"min_p": 1.0},
    "repetition": {"repetition_penalty": 1.3},
    "repetition_reward": {"repetition_penalty": 0.6},
    "all": {"repetition_penalty": 1.2, "temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
    "hot_then_filtered": {"temperature": 3.0, "top_p": 0.6, "min_p": 0.3},
}


def main(_arguments: list) -> None:
    generator = torch.Generator().manual_seed(5)
    logits = 3 * torch.randn(3, 41, generator=generator, dtype=torch.float64)
    logits[1, 4] = logits[1, 9] = logits[1].max()  # the likeliest twice
    tokens = torch.randint(41, (3, 12), generator=generator)
    tensors = {"logits": logits, "tokens": tokens}
    rows = []
    for case, options in kCases.items():
        scores = logits.clone()
        for name, processor in kProcessors.items():
            if name in options:
                scores = processor(options[name])(tokens, scores)
        tensors[f"expected.{case}"] = scores.contiguous()
        rows.append({"case": case, "options": options})
    kFolder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, kFolder / "logits.safetensors")
    (kFolder / "index.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{len(rows)} cases")
