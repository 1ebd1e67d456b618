"""Makes tests/golden/patching: what TransformerLens's 20 patching functions return, in float64.

For each model, raw and folded, on one pair and on three pairs of different lengths padded on the left: a file
`<raw|folded>_<one_pair|padded>.safetensors` with the inputs and, for each function, its result with a row for each pair in
front. All that is recorded was also computed by hand (patching_by_hand.py). Where a function crashes or its value is
another one, nothing is recorded and index.json says why.
"""

import dataclasses
import fnmatch
import functools
import json
import os
import shutil
import sys
import warnings

os.environ["TQDM_DISABLE"] = "1"  # read when transformer_lens is imported; each function has a progress bar

import torch
from safetensors.torch import save_file
from transformer_lens import HookedTransformer, HookedTransformerConfig, patching
from transformer_lens.tools.analysis import direct_path_patching

from . import patching_by_hand
from .analyses import Analysis, read_model
from .case_files import generator_for, kGoldens
from .drawn import draw, put_on_list
from .float64 import float64
from .patching_faults import Faults, reason_for_crash, reason_for_wrong
from .transformer_lens_cases import (build, kGated, kOracle, kPreserved, kRms, kRotary, native_config, native_weights,
                                     process, steps_for)

kWidth = 6  # columns of every prompt
kInputs = {"one_pair": (6,), "padded": (6, 4, 5)}  # real columns of each pair
kAgreement = 1e-10  # of what is recorded with the values by hand; metrics are of size 1
kEffect = 1e-4  # the largest change of a metric must exceed this: a patch without effect tests nothing

kNotes = {
    "rows": "Each result has a first axis of pairs: TransformerLens is called once a pair, with a metric that reads this row.",
    "metric": "logit[answer] - logit[against] at the last column; clean_metric and corrupted_metric are those of the runs "
              "without patches.",
    "masks": "No function takes an attention mask: they are called with an object whose run_with_hooks adds it.",
    "padding": "A place in the padding holds the corrupted run's metric.",
    "precision": "The functions write into a tensor of torch's default type: without a default of float64 results are float32.",
    "every": "Under grouped queries the rows of k and v in the two functions for heads have zeros behind their key-value heads.",
    "direct_path": "[row, source layer, source head, layer, head], by component behind the name; 0 where the layer does not "
                   "follow the source's. The function for one source is called for every source. Right is a run in which "
                   "the source's change reaches the input of one head's queries, keys or values alone, and the norm there "
                   "keeps the corrupted run's scale.",
}

kSizes = dict(n_ctx=8, n_layers=3, d_model=13, n_heads=3, d_head=4, d_mlp=17, d_vocab=19)


@dataclasses.dataclass
class Row:
    """A model: a case, or one of tests/golden/models with the config fields that differ from kSizes."""

    model: str
    fields: dict | None = None
    tied_norms: bool = False  # ln2 := ln1, as in GPT-J

    @property
    def folder(self) -> str:
        return f"cases/{self.model}" if self.fields is None else f"models/{self.model}"


kRows = (
    # Three layers: a direct path skips a layer.
    Row("gpt2_like", dict(act_fn="gelu_new")),
    Row("llama_like", dict(kRotary, **kRms, **kGated, n_heads=2, d_head=6, d_model=14)),
    Row("attention_only", dict(attn_only=True, d_mlp=None)),
    Row("gptj_like", dict(kRotary, parallel_attn_mlp=True, act_fn="gelu_new", n_heads=2, d_head=6, rotary_dim=4,
                          rotary_adjacent_pairs=True), tied_norms=True),
    Row("mistral_like", dict(kRotary, **kRms, **kGated, n_heads=4, n_key_value_heads=2, n_layers=2, use_local_attn=True,
                             window_size=3, attn_types=["local", "local"])),
    Row("gpt_neo_like", dict(act_fn="gelu_new", n_heads=2, d_head=5, use_attn_scale=False, use_local_attn=True,
                             window_size=3, attn_types=["global", "local", "global"])),
    # Norms.
    Row("tl_ln_folded"),
    Row("tl_no_norm"),
    Row("tl_final_rms"),
    Row("tl_norm_both"),
    Row("tl_norm_output"),
    Row("tl_qk_norm_ln"),
    # Blocks.
    Row("tl_attn_only_rms_rotary"),
    Row("tl_parallel"),
    Row("tl_parallel_rms_gated"),
    Row("tl_solu_ln"),
    Row("tl_mixture"),
    # Attention and positions.
    Row("tl_grouped"),
    Row("tl_rms_gated_grouped"),
    Row("tl_multi_query"),
    Row("tl_window"),
    Row("tl_score_cap"),
    Row("tl_logit_cap"),
    Row("tl_alibi_three_heads"),
    Row("tl_shortformer_mlp"),
    Row("tl_bidirectional"),
)


@dataclasses.dataclass
class Pairs:
    """Clean and corrupted prompts [row, pos], with a mask where a row is padded, and two tokens for each metric."""

    clean: torch.Tensor
    corrupted: torch.Tensor
    mask: torch.Tensor | None
    answer: torch.Tensor
    against: torch.Tensor

    def metric(self, row: int, place: int | None = None):
        """The metric of one row, which stands at `place` of a batch (at its own, if that is not said)."""
        place = row if place is None else place
        return lambda logits: logits[place, -1, self.answer[row]] - logits[place, -1, self.against[row]]

    def pad(self, row: int) -> int:
        return 0 if self.mask is None else int((self.mask[row] == 0).sum())

    def unpadded(self, row: int) -> tuple:
        """The clean and the corrupted prompt of a row, [1, pos] each."""
        return tuple(tokens[row:row + 1, self.pad(row):] for tokens in (self.clean, self.corrupted))

    def tensors(self) -> dict:
        masks = {} if self.mask is None else {"attention_mask": self.mask}
        return {"clean": self.clean, "corrupted": self.corrupted, "answer": self.answer, "against": self.against} | masks


def random_pairs(name: str, d_vocab: int, lengths) -> Pairs:
    """The prompts of a pair differ in two columns: one early and the last but one, which the smallest window reaches."""
    generator = generator_for(name)

    def draw(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, generator=generator)

    rows = len(lengths)
    clean, mask = draw(d_vocab, rows, kWidth), torch.ones(rows, kWidth, dtype=torch.int64)
    for row, length in enumerate(lengths):
        mask[row, :kWidth - length] = 0
    clean *= mask
    corrupted = clean.clone()
    for row, length in enumerate(lengths):
        for column in (kWidth - length + int(draw(length - 2)), kWidth - 2):
            corrupted[row, column] = (clean[row, column] + 1 + draw(d_vocab - 1)) % d_vocab
    answer = draw(d_vocab, rows)
    against = (answer + 1 + draw(d_vocab - 1, rows)) % d_vocab
    return Pairs(clean, corrupted, mask if mask.min() == 0 else None, answer, against)


class Seen:
    """What the patching functions see of a model: each of its runs has an attention mask, and is kept.

    A function makes the same runs for each row's metric: from the second row on it gets the logits of those before.
    """

    def __init__(self, model: HookedTransformer, mask: torch.Tensor | None):
        self.model, self.cfg, self.blocks, self.mask = model, model.cfg, model.blocks, mask
        self.kept, self.again = [], None

    def run_with_hooks(self, tokens, fwd_hooks) -> torch.Tensor:
        if self.again is not None:
            return next(self.again)
        self.kept.append(self.model.run_with_hooks(tokens, attention_mask=self.mask, fwd_hooks=fwd_hooks))
        return self.kept[-1]

    def run_with_cache(self, tokens) -> tuple:
        return self.model.run_with_cache(tokens, attention_mask=self.mask)

    def by_row(self, call, metrics) -> torch.Tensor:
        """[row, ...]: call(metric) for the metric of each row."""
        self.kept, self.again = [], None
        results = []
        for metric in metrics:
            results.append(call(metric))
            assert self.again is None or next(self.again, None) is None
            self.again = iter(self.kept)
        self.again = None
        return torch.stack(results)


def one_source(model, corrupted, clean_cache, corrupted_cache, metric, component) -> torch.Tensor:
    """`get_act_patch_direct_path` for every source, [layer, head, layer, head]."""
    return torch.stack([torch.stack([
        direct_path_patching.get_act_patch_direct_path(model, corrupted, clean_cache, corrupted_cache, metric, layer, head,
                                                       component, verbose=False)
        for head in range(model.cfg.n_heads)]) for layer in range(model.cfg.n_layers)])


def functions() -> dict:
    """The calls by name without `get_act_patch_`: of (model, corrupted, clean cache, corrupted cache, metric)."""
    names = [*patching_by_hand.kPresets, *patching_by_hand.kStacks]
    assert sorted(f"get_act_patch_{name}" for name in names) == [n for n in sorted(vars(patching)) if n.startswith("get_")]

    def preset(name):
        function = getattr(patching, f"get_act_patch_{name}")
        return lambda model, corrupted, clean_cache, _, metric: function(model, corrupted, clean_cache, metric)

    def direct(function, component):
        return lambda *arguments: function(*arguments, component)

    calls = {name: preset(name) for name in names}
    for component in patching_by_hand.kComponents:
        calls[f"direct_path.{component}"] = direct(one_source, component)
        calls[f"direct_path_all_sources.{component}"] = direct(
            lambda *arguments: direct_path_patching.get_act_patch_direct_path_all_sources(*arguments, verbose=False), component)
    return calls


def steps_that_preserve(fields: dict, weights: dict, tokens: torch.Tensor) -> tuple:
    """TransformerLens's steps for such a model, without fold_ln where that changes what the model computes."""
    steps = steps_for(fields)
    raw = build(fields, weights)(tokens).log_softmax(-1)
    for attempt in (steps, tuple(s for s in steps if s != "fold_ln")):
        changed = process(build(fields, weights), attempt)(tokens).log_softmax(-1)
        if (changed - raw).abs().max() <= kPreserved:
            return attempt
    raise AssertionError("no steps preserve this model")


def own_weights(row: Row) -> dict:
    blank = HookedTransformer(HookedTransformerConfig(**row.fields, dtype=torch.float64, device="cpu"))
    weights = {n: draw(row.folder, n, p.shape) for n, p in native_weights(blank).items()}
    if row.tied_norms:
        weights |= {n: weights[n.replace(".ln2.", ".ln1.")] for n in weights if ".ln2." in n}
    return weights


def write_model(row: Row) -> None:
    """Writes a model that is no case, and lists its weights."""
    folder = kGoldens / row.folder
    shutil.rmtree(folder, ignore_errors=True)
    row = dataclasses.replace(row, fields={k: v for k, v in (kSizes | row.fields).items() if v is not None})
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(native_config(row.fields), separators=(",", ":")) + "\n")
    weights = folder / "model.safetensors"
    save_file({n: w.clone() for n, w in sorted(own_weights(row).items())}, weights)
    assert put_on_list(row.folder, weights)
    weights.unlink()


def record(model: HookedTransformer, pairs: Pairs, fields: dict, fault) -> dict:
    """What a file holds; `fault(name, kind, reason, difference)` is told about what it lacks."""
    seen, rows, padded = Seen(model, pairs.mask), range(len(pairs.answer)), pairs.mask is not None
    hands = [patching_by_hand.Pair(model, *pairs.unpadded(row), pairs.metric(row, 0), pairs.pad(row)) for row in rows]
    (clean_logits, clean_cache), (corrupted_logits, corrupted_cache) = map(seen.run_with_cache, (pairs.clean, pairs.corrupted))
    unpatched = torch.stack([pairs.metric(row)(corrupted_logits) for row in rows])
    wrong_before = (unpatched - torch.stack([hand.unpatched for hand in hands])).abs().max().item()
    tensors = pairs.tensors()
    if wrong_before <= kAgreement:
        tensors["clean_metric"] = torch.stack([pairs.metric(row)(clean_logits) for row in rows])
        tensors["corrupted_metric"] = unpatched
    for name, call in functions().items():
        if wrong_before > kAgreement:
            fault(name, "wrong", reason_for_wrong(name, fields, model, padded), wrong_before)
            continue
        bound = functools.partial(call, seen, pairs.corrupted, clean_cache, corrupted_cache)
        try:
            found = seen.by_row(bound, map(pairs.metric, rows))
        except Exception as error:  # reason_for_crash raises again any unknown fault
            fault(name, "crash", reason_for_crash(name, fields, error), 0.0)
            continue
        right = torch.stack([patching_by_hand.by_hand(hand, name) for hand in hands])
        assert found.shape == right.shape, f"{name}: {found.shape}, by hand {right.shape}"
        difference = (found - right).abs().max().item()
        if difference > kAgreement:
            fault(name, "wrong", reason_for_wrong(name, fields, model, padded), difference)
            continue
        change = found - unpatched.reshape(-1, *[1] * (found.dim() - 1))
        assert change[found != 0].abs().max() > kEffect, f"{name} changes nothing"
        tensors[f"get_act_patch_{name}"] = found
    return tensors


def make(row: Row, analysis: Analysis, faults: Faults) -> dict:
    """Writes the files of a model and returns its row of the index."""
    if row.fields is not None:
        write_model(row)
    fields, weights = read_model(row.folder)
    analysis.clear(row.model)
    with float64(), torch.no_grad():
        batches = {name: random_pairs(f"patching/{row.model}/{name}", fields["d_vocab"], lengths)
                   for name, lengths in kInputs.items()}
        processing = {"raw": (), "folded": steps_that_preserve(fields, weights, batches["one_pair"].clean)}
        for processed, steps in processing.items():
            model = build(fields, weights)
            if steps:
                process(model, steps)
            for inputs, pairs in batches.items():
                file = f"{processed}_{inputs}"
                tensors = record(model, pairs, fields, functools.partial(faults.add, file))
                analysis.write(row.model, file, tensors, lambda name, value: None)
    return {"model": row.model, "folder": row.folder, "processing": {name: list(s) for name, s in processing.items()}}


def main(globs: list) -> None:
    """Without globs everything is made anew; with them those models, and the others' rows of the index stay."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    analysis = Analysis("patching")
    if not globs:
        analysis.clear()
    before = {"models": [], "exceptions": []} | analysis.index()
    models, exceptions = {row["model"]: row for row in before["models"]}, before["exceptions"]
    for row in kRows:
        if globs and not any(fnmatch.fnmatch(row.model, glob) for glob in globs):
            continue
        faults = Faults(row.model)
        models[row.model] = make(row, analysis, faults)
        exceptions = [e for e in exceptions if e["model"] != row.model] + faults.rows()
        print(row.model, file=sys.stderr, flush=True)
    order = [row.model for row in kRows]
    analysis.write_index({"oracle": kOracle, "notes": kNotes}, sorted(models.values(), key=lambda row: order.index(row["model"])),
                         exceptions=sorted(exceptions, key=lambda row: order.index(row["model"])))
