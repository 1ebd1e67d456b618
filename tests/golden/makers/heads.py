"""Makes tests/golden/heads: what TransformerLens's detect_head says of every head, in float64.

For each model, raw and some also folded, two batches: `whole`, two prompts without padding, and `padded`, three rows padded on the left. Of
each the tokens (and the mask), `<batch>.scores` [pattern, measure, exclusions, row, layer, head], and `<batch>.given` [measure, exclusions,
row, layer, head] of a pattern that the user gives, `given` [query, key]. index.json names what the places mean, and where a number of the
padded batch is another one than its definition says: those are NaN.

TransformerLens scores one prompt at a time and rounds "abs" to three digits; here each row of the batch is given to it as a
cache of that row, and its rounding is left out.
"""

import itertools
import logging
import math
import sys
import warnings

import torch
from transformer_lens import head_detector

from .analyses import Analysis, read_model
from .case_files import generator_for
from .float64 import float64
from .patching import kRows, steps_that_preserve
from .transformer_lens_cases import build, kOracle, process

# LayerNorm, RMSNorm, attention only, grouped heads with windows, only grouped heads, attention and MLP in parallel.
kModels = ("gpt2_like", "llama_like", "attention_only", "mistral_like", "tl_grouped", "gptj_like")
kFolded = ("gpt2_like", "llama_like", "gptj_like")
kPatterns = ("previous_token_head", "duplicate_token_head", "induction_head")
kMeasures = ("mul", "abs")
kExclusions = tuple({"exclude_bos": bos, "exclude_current_token": current} for bos, current in
                    itertools.product((False, True), (False, True)))
kWidth = 7
kLengths = (7, 4, 5)  # real columns of the padded rows
kFaults = ({"of": "abs", "reason": "queries and keys of padding are counted: what the pattern has there is a difference, "
                                       "and the sum is divided by all columns"},
           {"of": "exclude_bos", "reason": "column 0 is left out, which is padding, and not the row's first token"})


def repeated(vocab: int, generator: torch.Generator, rows: int) -> torch.Tensor:
    """Rows in which tokens come again."""
    some = torch.randint(1, min(vocab, 4), (rows, kWidth), generator=generator)
    some[:, kWidth - 3:] = some[:, :3]
    return some


class RowCache:
    """One row of a cache, as detect_head reads it."""

    def __init__(self, cache, row: int):
        self.cache, self.row = cache, row

    def __getitem__(self, key) -> torch.Tensor:
        return self.cache[key][self.row]


def wrong(measure: str, exclusions: dict, padded: bool) -> bool:
    return padded and (measure == "abs" or exclusions["exclude_bos"])


def given_pattern() -> torch.Tensor:
    """A pattern [query, key] of other numbers than 0 and 1, which detect_head wants to be lower triangular."""
    return torch.rand((kWidth, kWidth), generator=generator_for("heads/given"), dtype=torch.float64).tril()


def scores(model, tokens: torch.Tensor, mask, patterns) -> torch.Tensor:
    """[pattern, measure, exclusions, row, layer, head]; rows that begin with padding are NaN where a number is wrong."""
    model.to_tokens = lambda prompt: prompt  # without a tokenizer
    _, cache = model.run_with_cache(tokens, **({} if mask is None else {"attention_mask": mask}))
    shape = (len(patterns), len(kMeasures), len(kExclusions), len(tokens), model.cfg.n_layers, model.cfg.n_heads)
    made = torch.full(shape, math.nan, dtype=torch.float64)
    for (p, pattern), (m, measure), (e, exclusions) in itertools.product(enumerate(patterns), enumerate(kMeasures),
                                                                         enumerate(kExclusions)):
        for row in range(len(tokens)):
            if wrong(measure, exclusions, mask is not None and not bool(mask[row].all())):
                continue
            made[p, m, e, row] = head_detector.detect_head(model, tokens[row:row + 1], pattern, cache=RowCache(cache, row),
                                                           error_measure=measure, **exclusions)
    return made


def main(_: list) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    head_detector.round = lambda number, digits: number
    logging.disable(logging.WARNING)  # of a pattern that is not of zeros and ones
    analysis, models = Analysis("heads"), []
    analysis.clear()
    for name in kModels:
        row = next(row for row in kRows if row.model == name)
        fields, weights = read_model(row.folder)
        generator = generator_for("heads/" + name)
        whole, padded = repeated(fields["d_vocab"], generator, 2), repeated(fields["d_vocab"], generator, 3)
        mask = torch.ones_like(padded)
        for index, length in enumerate(kLengths):
            mask[index, :kWidth - length] = 0
        padded *= mask
        with float64(), torch.no_grad():
            processing = {"raw": []}
            if name in kFolded:
                processing["folded"] = list(steps_that_preserve(fields, weights, whole[:1]))
            for processed, steps in processing.items():
                model = build(fields, weights)
                if steps:
                    process(model, steps)
                tensors = {"given": given_pattern(), "padded.attention_mask": mask}
                for batch, (tokens, real) in {"whole": (whole, None), "padded": (padded, mask)}.items():
                    tensors |= {f"{batch}.tokens": tokens, f"{batch}.scores": scores(model, tokens, real, kPatterns),
                                f"{batch}.given": scores(model, tokens, real, (tensors["given"],))[0]}
                analysis.write(name, processed, tensors, with_gaps="padded.*")
        models.append({"model": name, "folder": row.folder, "processing": processing})
        print(name, file=sys.stderr, flush=True)
    analysis.write_index({"oracle": kOracle, "patterns": kPatterns, "measures": kMeasures, "exclusions": kExclusions, "faults": kFaults},
                         models)
