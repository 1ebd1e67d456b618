"""Makes tests/golden/gradients: attribution by gradients, from the papers, with plain autograd over TransformerLens's models.

For each model, raw, on a batch of three pairs padded on the left: `<model>/raw.safetensors` with both prompts, the mask, the two
answers, and what is estimated of the difference of their logits at the last column, row by row:

    nodes.*   (clean - corrupted) . gradient of the corrupted run: of z by head, of what MLPs add and of resid_pre by column;
              with norms or patterns that pass no gradient; with gradients averaged over runs between the two (Nanda 2023;
              Sundararajan et al. 2017), between streams before the first block or between the values of one activation
    atp.*     of queries and keys by column through the patterns that a run with that one patched has; of z by head, the mean
              size without each layer (Kramar et al. 2024)
    edges.*   of what each part writes by what each other reads (Syed et al. 2023; Hanna et al. 2024), at the split inputs
"""

import sys
import warnings

import torch

from . import padding
from .analyses import Analysis, read_model
from .case_files import generator_for
from .float64 import float64
from .patching import kRows
from .reading import kLengths, kModels, kWidth
from .transformer_lens_cases import build, kOracle

kSteps = 4


class Case:
    """A model with two batches of prompts and a metric."""

    def __init__(self, name: str, fields: dict, weights: dict):
        flags = {"use_attn_result": True, "use_split_qkv_input": True}
        if not fields.get("attn_only"):
            flags["use_hook_mlp_in"] = True
        self.model = build(fields | flags, weights)
        for parameter in self.model.parameters():
            parameter.requires_grad_(True)  # so that everything has a history
        generator = generator_for("gradients/" + name)
        draw = lambda: torch.randint(0, fields["d_vocab"], (3, kWidth), generator=generator)
        self.mask = torch.ones(3, kWidth, dtype=torch.int64)
        for index, length in enumerate(kLengths):
            self.mask[index, :kWidth - length] = 0
        self.clean, self.corrupted = draw() * self.mask, draw() * self.mask
        self.answer = draw()[:, 0]
        self.against = (self.answer + 1) % fields["d_vocab"]
        self.layers, self.heads = self.model.cfg.n_layers, self.model.cfg.n_heads
        self.has_mlp = not fields.get("attn_only")

    def run(self, tokens, hooks=(), gradients=True):
        """Activations by name and, of a run with gradients, theirs."""
        seen = {}

        def keep(value, hook):
            seen[hook.name] = value

        logits = self.model.run_with_hooks(tokens, return_type="logits", attention_mask=self.mask,
                                           fwd_hooks=[*hooks, (lambda name: True, keep)])
        rows = torch.arange(3)
        metric = (logits[rows, -1, self.answer] - logits[rows, -1, self.against]).sum()
        values = {name: value.detach() for name, value in seen.items()}
        if not gradients:
            return values
        names = [name for name, value in seen.items() if value.requires_grad]
        made = torch.autograd.grad(metric, [seen[name] for name in names], allow_unused=True)
        return values, {name: torch.zeros_like(seen[name]) if g is None else g.detach() for name, g in zip(names, made)}

    def averaged(self, runs) -> dict:
        """The mean of the gradients of some runs, each given by its hooks."""
        total = None
        for hooks in runs:
            _, made = self.run(self.corrupted, hooks)
            total = made if total is None else {name: total[name] + made[name] for name in total}
        return {name: value / len(runs) for name, value in total.items()}


def put(value):
    """A hook that puts a value there."""
    return lambda old, hook: value.detach().requires_grad_(True)


def constant(value, hook):
    return value.detach()


def between(here, there) -> list:
    """Places on the way from one value to another, in the middle of each step."""
    return [here + (there - here) * ((i + 0.5) / kSteps) for i in range(kSteps)]


def edges(case: Case, deltas: dict, gradients: dict):
    """[row, writer, reader, pos], NaN where the reader is not behind the writer."""
    writers, readers = [], []  # (vector [row, pos, d_model], number in the order of the stream)
    writers.append((deltas["hook_embed"], -1))
    if "hook_pos_embed" in deltas and case.model.cfg.positional_embedding_type == "standard":
        writers.append((deltas["hook_pos_embed"], -1))
    parallel = case.model.cfg.parallel_attn_mlp
    for layer in range(case.layers):
        at = f"blocks.{layer}."
        for name in ("q", "k", "v"):
            gradient = gradients[f"{at}hook_{name}_input"]
            readers += [(gradient[:, :, head], 2 * layer) for head in range(gradient.shape[2])]
        if case.has_mlp:
            readers.append((gradients[f"{at}hook_mlp_in"], 2 * layer if parallel else 2 * layer + 1))
        result = deltas[f"{at}attn.hook_result"]
        writers += [(result[:, :, head], 2 * layer + 0.5) for head in range(case.heads)]
        if case.has_mlp:
            writers.append((deltas[f"{at}hook_mlp_out"], 2 * layer + 1.5))
    readers.append((gradients[f"blocks.{case.layers - 1}.hook_resid_post"], 2 * case.layers))
    made = torch.full((3, len(writers), len(readers), kWidth), float("nan"), dtype=torch.float64)
    for w, (delta, written) in enumerate(writers):
        for r, (gradient, read_at) in enumerate(readers):
            if read_at > written:
                made[:, w, r] = (delta * gradient).sum(-1)
    return made


def make(case: Case) -> dict:
    layers = range(case.layers)
    z, attention = [f"blocks.{l}.attn.hook_z" for l in layers], [f"blocks.{l}.attn." for l in layers]
    clean = case.run(case.clean, gradients=False)
    corrupted, gradients = case.run(case.corrupted)
    deltas = {name: clean[name] - value for name, value in corrupted.items() if value.is_floating_point()}
    by_head = lambda of: torch.stack([(deltas[name] * of[name]).sum((1, 3)) for name in z], 1)  # [row, layer, head]
    by_column = lambda site: torch.stack([(deltas[f"blocks.{l}.{site}"] * gradients[f"blocks.{l}.{site}"]).sum(2) for l in layers], 1)
    made = {"nodes.z": by_head(gradients), "nodes.resid_pre": by_column("hook_resid_pre")}
    if case.has_mlp:
        made["nodes.mlp_out"] = by_column("hook_mlp_out")
    norms = [(lambda name: name.endswith("hook_scale"), constant)]
    held = case.run(case.corrupted, norms)[1]
    made["nodes.z_held_norms"] = by_head(held)
    made["nodes.z_held_patterns"] = by_head(case.run(case.corrupted, [(lambda name: name.endswith("hook_pattern"), constant)])[1])
    first = "blocks.0.hook_resid_pre"
    integrated = [[(first, put(value))] for value in between(corrupted[first], clean[first])]
    over_inputs = case.averaged(integrated)
    made["nodes.z_integrated_inputs"] = by_head(over_inputs)
    over_each = {name: case.averaged([[(name, put(value))] for value in between(corrupted[name], clean[name])])[name] for name in z}
    made["nodes.z_integrated_activations"] = by_head(over_each)

    made["edges.plain"] = edges(case, deltas, gradients)
    made["edges.held_norms"] = edges(case, deltas, held)
    made["edges.integrated_inputs"] = edges(case, deltas, over_inputs)

    def through_pattern(site: str):
        """[row, layer, pos, head]: one query or key patched, the pattern that this run has."""
        rows = []
        for at in attention:
            here, there = corrupted[at + site], clean[at + site]
            effects = torch.zeros(here.shape[:3])
            for pos in range(kWidth):
                for head in range(here.shape[2]):
                    patched = here.clone()
                    patched[:, pos, head] = there[:, pos, head]
                    pattern = case.run(case.corrupted, [(at + site, put(patched))], gradients=False)[at + "hook_pattern"]
                    change = (pattern - corrupted[at + "hook_pattern"]) * gradients[at + "hook_pattern"]
                    effects[:, pos, head] = change.sum((1, 2, 3))
            rows.append(effects)
        return torch.stack(rows, 1)

    made["atp.q"], made["atp.k"] = through_pattern("hook_q"), through_pattern("hook_k")
    dropped = []
    for layer in layers:
        names = [f"blocks.{layer}.hook_attn_out", f"blocks.{layer}.hook_mlp_out"]
        dropped.append(by_head(case.run(case.corrupted, [(lambda name: name in names, constant)])[1]).abs())
    made["atp.z_without_layers"] = torch.stack(dropped).sum(0) / (case.layers - 1)
    made |= {"clean": case.clean, "corrupted": case.corrupted, "attention_mask": case.mask, "answer": case.answer,
             "against": case.against}
    return made


def main(_: list) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    analysis, models = Analysis("gradients"), []
    analysis.clear()
    for name in kModels:
        row = next(row for row in kRows if row.model == name)
        fields, weights = read_model(row.folder)
        with float64():
            case = Case(name, fields, weights)
            tensors = make(case)
        analysis.write(name, "raw", tensors, lambda name, value: padding.of_gradients(name, case.mask, value), with_gaps="edges.*")
        models.append({"model": name, "folder": row.folder, "processing": {"raw": []}})
        print(name, file=sys.stderr, flush=True)
    analysis.write_index({"oracle": kOracle, "steps": kSteps}, models)
