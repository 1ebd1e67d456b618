"""Tiny random checkpoints of every family, and what transformers (or the training code itself) computes with them."""

import transformers

from ..case_files import Golden, Maker
from . import encoder_decoders, hub_models, training_scripts
from .table import kCases


def has_idle_experts(outputs: dict) -> bool:
    """Whether no token chose some expert of some layer."""
    real = outputs["attention_mask"].bool() if "attention_mask" in outputs else slice(None)
    chosen = [value[real] for name, value in outputs.items() if name.endswith("hook_expert_indices")]
    weights = [value for name, value in outputs.items() if name.endswith("hook_expert_weights")]
    return any(len(ids.unique()) < of_all.shape[-1] for ids, of_all in zip(chosen, weights, strict=True))


def exceptions_of(case, source, outputs: dict) -> tuple:
    """The kinds of points that the source does not record for this case."""
    if source is encoder_decoders:
        return ("wide", "inside_modules") + (("padded_encoder",) if case.padded and not case.encoder_alone else ())
    holds = {
        "wide": True, "inside_modules": True, "summands": True,
        "projections": "kv_lora_rank" not in case.keys,
        "inside_experts": any(".experts." in name for name in outputs),
        "idle_experts": has_idle_experts(outputs),
        "normed_stream": source is hub_models and hub_models.norms_after_additions(case),
        "eager_attention": source is hub_models and not case.eager,
        "output_projection": "word_embed_proj_dim" in case.keys and "unembed.hook_in" not in outputs,
        "training_code": case.model_type == "transformer_lens",
    }
    return tuple(kind for kind, does in holds.items() if does)


def make(case, source, oracle: str) -> Golden:
    """`source` is a module with record(case) and write_folder(model, case, folder)."""
    model, outputs = source.record(case)
    return Golden(case=case.name, family=case.model_type, oracle=oracle, outputs=outputs,
                  write_model=lambda folder: source.write_folder(model, case, folder),
                  exceptions=exceptions_of(case, source, outputs))


def makers() -> list:
    of_hub = f"transformers {transformers.__version__}"
    rows = [(case, hub_models, of_hub) for case in kCases]
    rows += [(case, encoder_decoders, of_hub) for case in encoder_decoders.kTwoStackCases]
    rows += [(case, training_scripts, case.oracle) for case in training_scripts.kScriptCases]
    return [Maker(row[0].name, lambda row=row: make(*row), row[0].golden) for row in rows]
