"""Makes tests/golden/sampling: what transformers' logits processors and warpers do to random logits, in float64.

`logits` [batch, vocab] and `tokens` [batch, pos] are the same for every case; index.json has one row per case with
the options as GenerateOptions names them, and `expected.<case>` is what the chain of processors makes of the logits.

generations.json has the new tokens that `generate` makes of models with each set of options, the logits of which lie far
from 0 on average: numbers are added to the unembedding. A token is drawn by the number that hooked draws, with the seed of
its place in the list.
"""

import json

import torch
import transformers
from safetensors.torch import save_file
from transformers.generation import logits_process as processors

from .case_files import kGoldens
from .drawn import model_folder

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


kModels = {
    "gpt2": {},  # its unembedding is its embedding
    "llama": {"lm_head.weight": 0.5},
    "phi": {"lm_head.weight": -0.5, "lm_head.bias": 3.0},
    "bart": {},
    "t5": {},
}
kOptions = [
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 4.0},
    {"repetition_penalty": 0.7},
    {"temperature": 0.6},
    {"top_k": 4, "temperature": 3.0},
    {"top_p": 0.7},
    {"min_p": 0.2, "temperature": 2.0},
    {"repetition_penalty": 1.5, "temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.02},
]
kGreedy = 3  # of the options, the first ones
kPrompt = [[3, 1, 4, 1, 5]]
kNewTokens = 12


class Mersenne64:
    """std::mt19937_64, of which hooked takes the upper 53 bits."""

    def __init__(self, seed: int):
        self.state = [seed]
        for i in range(1, 312):
            last = self.state[-1]
            self.state.append((6364136223846793005 * (last ^ last >> 62) + i) % 2**64)
        self.at = 312

    def draw(self) -> float:
        if self.at == 312:
            for i in range(312):
                x = self.state[i] >> 31 << 31 | self.state[(i + 1) % 312] % 2**31
                self.state[i] = self.state[(i + 156) % 312] ^ x >> 1 ^ (0xB5026F5AA96619E9 if x & 1 else 0)
            self.at = 0
        x = self.state[self.at]
        self.at += 1
        x ^= x >> 29 & 0x5555555555555555
        x ^= x << 17 & 0x71D67FFFEDA60000
        x ^= x << 37 & 0xFFF7EEE000000000
        return ((x ^ x >> 43) >> 11) * 2.0**-53


def generations() -> dict:
    made = {}
    multinomial = torch.multinomial
    for case, added in kModels.items():
        kind = transformers.AutoModelForSeq2SeqLM if case in ("bart", "t5") else transformers.AutoModelForCausalLM
        model = kind.from_pretrained(model_folder(f"cases/{case}"), dtype=torch.float64, attn_implementation="eager").eval()
        with torch.no_grad():
            for name, number in added.items():
                model.get_parameter(name).add_(number)
        rows = []
        for seed, options in enumerate(kOptions):
            random = Mersenne64(seed)

            def drawn(probabilities, num_samples, random=random):
                sums = probabilities.double().cumsum(-1)
                return torch.searchsorted(sums, random.draw() * sums[:, -1:], right=True)

            torch.multinomial = drawn
            model.generation_config = transformers.GenerationConfig.from_model_config(model.config)
            model.generation_config.update(**({"top_k": 0} | options), max_new_tokens=kNewTokens, do_sample=seed >= kGreedy,
                                           pad_token_id=0, eos_token_id=None)
            tokens = model.generate(torch.tensor(kPrompt))[0]
            rows.append(tokens[-kNewTokens:].tolist())
        made[case] = {"added": added, "tokens": rows}
    torch.multinomial = multinomial
    return {"prompt": kPrompt[0], "greedy": kGreedy, "options": kOptions, "models": made}


def main(_arguments: list) -> None:
    generator = torch.Generator().manual_seed(5)
    logits = 3 * torch.randn(2, 24, generator=generator, dtype=torch.float64)
    logits[1, 4] = logits[1, 9] = logits[1].max()  # the likeliest twice
    tokens = torch.randint(24, (2, 12), generator=generator)
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
    (kFolder / "index.json").write_text(json.dumps(rows, separators=(",", ":")) + "\n")
    (kFolder / "generations.json").write_text(json.dumps(generations(), separators=(",", ":")) + "\n")
    print(f"{len(rows)} cases")
