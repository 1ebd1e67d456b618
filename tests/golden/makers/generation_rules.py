"""What transformers' generate makes of models whose generation_config.json has rules for tokens: the likeliest tokens, in float64."""

import json

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

from .drawn import model_folder
from .projections import kGoldens

kFile = kGoldens / "generation_rules.json"
kNewTokens = 8

# Ids of the vocabularies of the cases, which are 23 to 29 entries large.
kRules = {
    "nothing": {},
    "eos": dict(eos_token_id=[3, 4, 5, 6, 7, 8]),
    "no_repeat_1": dict(no_repeat_ngram_size=1),
    "no_repeat_2": dict(no_repeat_ngram_size=2),
    "no_repeat_3": dict(no_repeat_ngram_size=3),
    "suppressed": dict(suppress_tokens=list(range(0, 20, 2))),
    "suppressed_first": dict(begin_suppress_tokens=list(range(0, 20, 2))),
    "forced_second": dict(forced_bos_token_id=7),
    "forced_second_and_suppressed_first": dict(forced_bos_token_id=7, begin_suppress_tokens=list(range(8, 20))),
    "forced_last": dict(forced_eos_token_id=2),
    "forced_last_of_two": dict(forced_eos_token_id=[9, 2]),
    "banned_alone": dict(bad_words_ids=[[i] for i in range(1, 20, 2)]),
    "min_length": dict(min_length=12, eos_token_id=list(range(0, 20))),
    "min_new_tokens": dict(min_new_tokens=4, eos_token_id=list(range(0, 20))),
    "all": dict(no_repeat_ngram_size=2, suppress_tokens=[1, 2], begin_suppress_tokens=[5, 6, 7], min_new_tokens=3, eos_token_id=[8, 9, 10, 11],
                forced_eos_token_id=3),
}
kCases = {"llama": AutoModelForCausalLM, "gpt2": AutoModelForCausalLM, "bart": AutoModelForSeq2SeqLM, "marian": AutoModelForSeq2SeqLM,
          "t5": AutoModelForSeq2SeqLM}


def made_by(model, prompt: torch.Tensor, rules: dict) -> list:
    config = dict(max_new_tokens=kNewTokens, do_sample=False, num_beams=1, pad_token_id=0) | rules
    if model.config.is_encoder_decoder:
        config |= dict(decoder_start_token_id=model.config.decoder_start_token_id)
    model.generation_config = GenerationConfig(**config)
    with torch.no_grad():
        return model.generate(prompt)[0].tolist()


def main(arguments: list) -> None:
    rows = []
    for case, kind in kCases.items():
        model = kind.from_pretrained(model_folder(f"cases/{case}"), dtype=torch.float64, attn_implementation="eager").eval()
        for length in (1, 5):
            prompt = torch.tensor([[3, 1, 4, 1, 5]])[:, :length]
            rules = dict(kRules)
            free = made_by(model, prompt, {})
            # Sequences that would occur: each token after the one before it.
            rules["banned_together"] = dict(bad_words_ids=[free[-3:-1], free[-2:], free[-4:-1]])
            for name, rule in rules.items():
                rows.append(dict(case=case, name=f"{case}_{name}_{length}", prompt=prompt[0].tolist(), rules=rule, tokens=made_by(model, prompt, rule)))
    lines = ",\n".join(" " + json.dumps(row) for row in rows)
    kFile.write_text(f'{{"oracle": "transformers {transformers.__version__}", "new_tokens": {kNewTokens}, "rows": [\n{lines}\n]}}\n')
    print(f"{len(rows)} rows")
