"""Records how far transformers' logits in half precision are from those of the same rounded weights in float64.

`half_precision.json` has, for each case of a checkpoint and each dtype, the mean of |logits - float64 logits| over real tokens and
vocabulary. What is read are the case's own rows `kSeeds` times, each time with all tokens moved on in the vocabulary, so that
the number is not one of a few tokens: the tests make the same rows (tests/golden/half_precision_test.cc).

`make.py half-precision [CASE-GLOB ...]` makes the rows of these cases anew; the others stay.
"""

import copy
import json
import sys

import torch

from .case_files import kGoldens
from .saved_models import cases, computing_in, inputs_of, load, logits_of

kFile = kGoldens / "half_precision.json"
kSeeds = 32
kFirstToken = 4  # those before it are special ones: padding, for instance
# Families whose positions transformers counts by the tokens that are not the padding token, whatever the mask says: there it
# stays where it is, and no other token becomes it.
kCountedByPadding = {"roberta", "roberta-prelayernorm", "xlm-roberta", "camembert", "data2vec-text", "m2m_100"}
kDtypes = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def moved_on(inputs: dict, vocabulary: int, padding: int | None) -> dict:
    """The inputs once for each seed, one below the other."""
    def on(tokens: torch.Tensor, seed: int) -> torch.Tensor:
        made = kFirstToken + (tokens + seed) % (vocabulary - kFirstToken)
        if padding is None:
            return made
        return made.masked_fill(made == padding, padding + 1).masked_fill(tokens == padding, padding)

    moved = {}
    for name, value in inputs.items():
        of_tokens = name in ("tokens", "decoder_tokens")
        moved[name] = torch.cat([on(value, seed) if of_tokens else value for seed in range(kSeeds)])
    return moved


def in_float64(model: torch.nn.Module) -> torch.nn.Module:
    """The same weights, rounded as they are. Call inside float64()."""
    return copy.deepcopy(model).to(torch.float64)


def mean_error(case: str, dtype: torch.dtype) -> float:
    model = load(case, dtype)
    padding = model.config.pad_token_id if model.config.model_type in kCountedByPadding else None
    inputs = moved_on(inputs_of(case), model.get_input_embeddings().weight.shape[0], padding)
    with computing_in(torch.float64):
        exact = logits_of(in_float64(model), inputs)
    error = (logits_of(model, inputs).double() - exact).abs().mean(-1)
    real = inputs.get("attention_mask") if "decoder_tokens" not in inputs else None
    return (error if real is None else error[real.bool()]).mean().item()


def main(globs: list) -> None:
    torch.set_num_threads(1)
    known = json.loads(kFile.read_text()) if kFile.exists() else {}
    for case in cases(globs):
        try:
            known[case] = {name: float(f"{mean_error(case, dtype):.4g}") for name, dtype in kDtypes.items()}
        except Exception as error:  # transformers reads quantised folders by packages that are not there, for one
            print(f"{case}: {type(error).__name__}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
    lines = [f" {json.dumps(case)}: {json.dumps(known[case])}" for case in cases([]) if case in known]
    kFile.write_text("{\n" + ",\n".join(lines) + "\n}\n")
