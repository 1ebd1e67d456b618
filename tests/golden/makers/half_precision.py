"""Records how far transformers' logits in half precision are from those of the same rounded weights in float64.

`half_precision.json` has two tables with a row per case of a checkpoint, [in bfloat16, in float16].

- `error`: the mean of |logits - float64 logits| over real tokens and vocabulary.
- `mixtures`, of mixtures of experts: the same over the tokens before a row's first with another choice than in float64, and how many
  real tokens some router sends to other experts than in float64. Where two experts are nearly tied, one rounding changes
  the choice, and that token then weighs as much as a thousand roundings. Later tokens read it.

What is read are the case's own rows `kSeeds` times, each time with all tokens moved on in the vocabulary, so that
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
# stays where it is, and no other token becomes one.
kCountedByPadding = {"roberta", "roberta-prelayernorm", "xlm-roberta", "camembert", "data2vec-text", "m2m_100"}
kDtypes = [torch.bfloat16, torch.float16]


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


def watch_choices(model: torch.nn.Module) -> list:
    """A list that gets the choice of each mixture layer that runs from now on, [token, numbers that must be equal]."""
    # A sparse mixer also chooses among how many near experts a weight is shared: with k of them it is about 1 / k.
    shares = model.config.model_type == "phimoe"
    choices = []

    def add(experts: torch.Tensor, weights: torch.Tensor) -> None:
        experts, order = experts.sort(-1)
        near = [weights.gather(-1, order).double().reciprocal().round().long()] if shares else []
        choices.append(torch.cat([experts, *near], -1))

    for module in model.modules():
        kind = type(module).__name__
        if kind == "Llama4Router":  # Llama 4's experts get only weights
            module.register_forward_hook(lambda router, _, out: add(out[1].topk(router.top_k).indices, out[0]))
        elif kind.endswith("Experts") and kind != "Llama4TextExperts":
            module.register_forward_pre_hook(lambda _, arguments: add(arguments[1], arguments[2]))
    return choices


def measured(case: str, dtype: torch.dtype) -> dict:
    """What the tables of the file have of the case in this dtype."""
    model = load(case, dtype)
    padding = model.config.pad_token_id if model.config.model_type in kCountedByPadding else None
    inputs = moved_on(inputs_of(case), model.get_input_embeddings().weight.shape[0], padding)
    with computing_in(torch.float64):
        double = in_float64(model)
        exact_choices = watch_choices(double)
        exact = logits_of(double, inputs)
    choices = watch_choices(model)
    error = (logits_of(model, inputs).double() - exact).abs().mean(-1)
    mask = inputs.get("attention_mask") if "decoder_tokens" not in inputs else None
    real = torch.ones_like(error, dtype=torch.bool) if mask is None else mask.bool()
    numbers = {"error": rounded(error[real].mean())}
    if choices:
        pairs = zip(choices, exact_choices, strict=True)
        otherwise = torch.stack([(a != b).any(-1).view(real.shape) for a, b in pairs]).any(0) & real
        alike = real & (otherwise.cumsum(-1) == 0)
        numbers["mixtures"] = [rounded(error[alike].mean()), otherwise.sum().item()]
    return numbers


def rounded(number: torch.Tensor) -> float:
    return float(f"{number.item():.4g}")


def main(globs: list) -> None:
    torch.set_num_threads(1)
    tables = json.loads(kFile.read_text()) if kFile.exists() else {}
    for case in cases(globs):
        try:
            in_dtypes = [measured(case, dtype) for dtype in kDtypes]
        except Exception as error:  # transformers needs missing packages for quantised folders, for example
            print(f"{case}: {type(error).__name__}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            continue
        for name in in_dtypes[0]:
            tables.setdefault(name, {})[case] = [numbers[name] for numbers in in_dtypes]
    kFile.write_text(text_of(tables))


def text_of(tables: dict) -> str:
    """One case per line, in the order of the index."""
    def compact(value: object) -> str:
        return json.dumps(value, separators=(",", ":"))

    known, texts = cases([]), []
    for name, rows in tables.items():
        lines = [f"{compact(case)}:{compact(rows[case])}" for case in known if case in rows]
        texts.append(compact(name) + ":{\n" + ",\n".join(lines) + "}")
    return "{" + ",\n".join(texts) + "}\n"
