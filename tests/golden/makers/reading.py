"""Makes tests/golden/reading: what TransformerLens's ActivationCache says of the residual stream, in float64.

For each model, raw and folded, on a batch of three rows padded on the left: `<raw|folded>.safetensors` with the tokens, the
mask and, under a number, the result of each call in index.json, which has its labels, too. Numbers at padding mean nothing.
Where a call crashes index.json says so; where its value is another one than its definition's, nothing is recorded and
index.json says why.
"""

import sys
import warnings

import torch

from . import padding
from .analyses import Analysis, read_model
from .case_files import generator_for
from .float64 import float64
from .patching import kRows, steps_that_preserve
from .transformer_lens_cases import build, kOracle, process

# LayerNorm, RMSNorm, attention only, parallel with one norm and with two, windows and grouped heads, grouped heads alone.
kModels = ("gpt2_like", "llama_like", "attention_only", "gptj_like", "tl_parallel", "mistral_like", "tl_grouped")
kWidth = 4
kLengths = (4, 2, 3)  # real columns of each row
kUnfolded = "the weight of the final norm is left out: right only where it is folded or ones"

# Methods with the arguments of each call. `layer` null is the end of the stream; a slice is an int, [begin, end] or {"list": []}.
kStacks = [{}, {"pos_slice": -1}, {"pos_slice": [1, 3]}, {"pos_slice": {"list": [0, 3]}}]
kLayers = [{}, {"layer": 1}, {"layer": 0}]


def calls() -> list:
    all_calls = []

    def add(method: str, *choices) -> None:
        """The product of some choices of arguments."""
        rows = [{}]
        for choice in choices:
            rows = [row | more for row in rows for more in choice]
        all_calls.extend({"method": method, "arguments": row} for row in rows)

    ln, mlp = [{}, {"apply_ln": True}], [{"layer": 1, "mlp_input": True}]
    add("accumulated_resid", kLayers, [{}, {"incl_mid": True}], ln)
    add("accumulated_resid", mlp, ln)
    add("accumulated_resid", kStacks[1:], ln)
    add("decompose_resid", kLayers, [{}, {"mode": "mlp"}, {"mode": "attn"}], ln)
    add("decompose_resid", mlp, [{}, {"mode": "attn"}], ln)
    add("decompose_resid", kStacks[1:], [{"incl_embeds": False}, {"apply_ln": True}])
    add("stack_head_results", kLayers, [{}, {"incl_remainder": True}], ln)
    add("stack_head_results", kStacks[1:], ln)
    some, last = {"neuron_slice": [2, 5]}, {"pos_slice": -1}  # results of all neurons are large
    add("stack_neuron_results", [{"layer": 1} | last, {"layer": None} | some], [{}, {"incl_remainder": True}], ln)
    add("stack_neuron_results", [{"layer": None}], [{"neuron_slice": 3}, last], ln)
    add("stack_neuron_results", [{"layer": None} | last], [{"project": 1}, {"project": 2} | some, {"project": 2, "incl_remainder": True}], ln)
    add("get_neuron_results", [{"layer": 1}], [{}, {"neuron_slice": [2, 5]}, {"pos_slice": -1}, {"project": 1}, {"project": 2}])
    whole = {"expand_neurons": False}
    add("get_full_resid_decomposition", [last, whole, whole | {"layer": 1}, whole | {"layer": 1, "mlp_input": True}], ln)
    add("get_full_resid_decomposition", [{"layer": 1} | last], [{}, {"project": 1}, {"project": 2}, whole | {"project": 2}], ln)
    add("apply_ln_to_stack", [{}, {"layer": 0}, {"layer": 1}, {"layer": 1, "mlp_input": True}, {"recompute_ln": True},
                              {"pos_slice": -1}, {"batch_slice": [0, 2]}])
    add("stack_activation", [{"activation": "pattern"}, {"activation": "z", "layer": 1}])
    tokens = [{"tokens": kind} for kind in ("int", "batch", "batch_pos")]
    add("logit_attrs", tokens, [{}, {"incorrect": True}])
    add("logit_attrs", [{"tokens": "batch"}], [{"incorrect": True, "pos_slice": -1}])
    add("logit_attrs", [{"tokens": "int"}], [{"batch_slice": [0, 2]}])
    return all_calls


def wrong_reason(call: dict, fields: dict, steps) -> str | None:
    """Why a call's value is not what its definition says, or nothing."""
    method, arguments = call["method"], call["arguments"]
    if method == "logit_attrs" and "fold_ln" not in steps:
        return kUnfolded
    if method == "stack_head_results" and arguments.get("layer") == 0 and arguments.get("incl_remainder"):
        return "at layer 0 the remainder is the end of the stream: it reads resid_post of layer -1"
    adds_attention = method in ("decompose_resid", "get_full_resid_decomposition")
    if fields.get("parallel_attn_mlp") and arguments.get("mlp_input") and adds_attention:
        return "in a parallel block the MLP does not read what attention of the same block writes"
    return None


def python_slice(value):
    if isinstance(value, dict):
        return value["list"]
    return tuple(value) if isinstance(value, list) else value


def result_of(cache, method: str, arguments: dict, inputs: dict) -> tuple:
    """What a call returns, and its labels (or none)."""
    arguments = {name: python_slice(value) if name.endswith("_slice") else value for name, value in arguments.items()}
    if "project" in arguments:
        onto = inputs["directions"].T  # [d_model, n]
        arguments["project_output_onto"] = onto if arguments.pop("project") == 2 else onto[:, 0]
    if method == "stack_activation":
        return cache.stack_activation(arguments["activation"], layer=arguments.get("layer", -1)), None
    if method == "get_neuron_results":
        return cache.get_neuron_results(**arguments), None
    if method in ("apply_ln_to_stack", "logit_attrs"):
        pos = arguments.get("pos_slice")
        stack = cache.decompose_resid(pos_slice=pos)
        if method == "apply_ln_to_stack":
            return cache.apply_ln_to_stack(stack, **arguments), None
        kind = arguments.pop("tokens")
        pick = {"int": lambda t: int(t[0, 0]), "batch": lambda t: t[:, 0], "batch_pos": lambda t: t}[kind]
        if kind == "batch" and pos is None:  # a token of each row, at each of its positions
            pick = lambda t: t[:, :1].expand(-1, kWidth)
        incorrect = {"incorrect_tokens": pick(inputs["against"])} if arguments.pop("incorrect", False) else {}
        return cache.logit_attrs(stack, tokens=pick(inputs["answer"]), **incorrect, **arguments), None
    return getattr(cache, method)(**arguments, return_labels=True)


def make(name: str, analysis: Analysis) -> dict:
    row = next(row for row in kRows if row.model == name)
    fields, weights = read_model(row.folder)
    generator = generator_for("reading/" + name)
    tokens = torch.randint(0, fields["d_vocab"], (3, kWidth), generator=generator)
    mask = torch.ones(3, kWidth, dtype=torch.int64)
    for index, length in enumerate(kLengths):
        mask[index, :kWidth - length] = 0
    tokens *= mask
    answer = torch.randint(0, fields["d_vocab"], (3, kWidth), generator=generator)
    against = (answer + 1 + torch.randint(0, fields["d_vocab"] - 1, (3, kWidth), generator=generator)) % fields["d_vocab"]
    directions = torch.randn((2, fields["d_model"]), generator=generator, dtype=torch.float64)
    inputs = {"tokens": tokens, "attention_mask": mask, "answer": answer, "against": against, "directions": directions}
    made = {"model": name, "folder": row.folder, "processing": {}, "labels": {}, "absent": []}
    with float64(), torch.no_grad():
        steps = steps_that_preserve(fields, weights, tokens[:1])
        for processed, of in {"raw": (), "folded": steps}.items():
            model = build(fields, weights)
            if of:
                process(model, of)
            _, cache = model.run_with_cache(tokens, attention_mask=mask)
            made["processing"][processed] = list(of)
            tensors = dict(inputs)
            for number, call in enumerate(calls()):
                if (reason := wrong_reason(call, fields, of)) is not None:
                    made["absent"].append({"file": processed, "call": number, "kind": "wrong", "reason": reason})
                    continue
                try:
                    value, labels = result_of(cache, call["method"], dict(call["arguments"]), inputs)
                except (AssertionError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
                    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:100]
                    made["absent"].append({"file": processed, "call": number, "kind": "crash", "reason": reason})
                    continue
                tensors[str(number)] = value.to(torch.float64)
                if labels is not None:
                    made["labels"][str(number)] = list(labels)
            analysis.write(name, processed, tensors, lambda name, value: padding.of_reading(calls()[int(name)], mask, value))
    return made


def main(_: list) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    analysis, models = Analysis("reading"), []
    analysis.clear()
    for name in kModels:
        models.append(make(name, analysis))
        print(name, file=sys.stderr, flush=True)
    analysis.write_index({"oracle": kOracle}, models, calls=calls())
