"""What a golden case is, its random parameters, and how it is written."""

import dataclasses
import json
import pathlib
import shutil
import zlib

import torch
from safetensors.torch import save_file


@dataclasses.dataclass
class Golden:
    """One case, ready to be written.

    `native_config` describes the model in native fields (for the coverage table); `config` and `weights` are what is
    written as config.json and model.safetensors, unless `write_model` writes another kind of model folder.
    Outputs are float64 (integer points int64) by activation name, with `tokens` [batch, pos], `logits`
    [batch, pos, vocab] and perhaps `attention_mask` [batch, pos]. `exceptions` is glob -> reason for points of the
    model that `outputs` lacks (`processed` has all of them). Rows of padding mean nothing.
    """

    case: str
    oracle: str
    native_config: dict
    outputs: dict
    config: dict | None = None
    weights: dict | None = None
    write_model: object = None
    processed: dict | None = None
    processing: list = dataclasses.field(default_factory=list)
    processed_skipped: str = ""  # why steps (or all of them) have no oracle
    gradients: dict | None = None
    gradient_metric: dict | None = None
    exceptions: dict = dataclasses.field(default_factory=dict)
    folder_options: dict = dataclasses.field(default_factory=dict)
    agrees_with: str = ""  # the other oracle that was asked and gave the same numbers


def generator_for(case: str) -> torch.Generator:
    """A generator seeded by the case's name, so that adding a case changes no other."""
    return torch.Generator().manual_seed(zlib.crc32(case.encode()))


def random_tokens(case: str, d_vocab: int, length: int) -> torch.Tensor:
    """[2, length] token ids of all the vocabulary."""
    return torch.randint(0, d_vocab, (2, length), generator=generator_for(case + "/tokens"))


def random_parameter(name: str, shape, generator: torch.Generator) -> torch.Tensor:
    """A float32 parameter that shows if it is left out: no bias is 0 and no norm weight is 1.

    Norm weights lie in [0.5, 1.5] in steps of 1/64, so that 1 + w is exact in float32 for norms stored as offsets.
    """
    shape = tuple(shape)
    leaf = name.rsplit(".", 1)[-1]
    is_norm_weight = len(shape) == 1 and leaf in ("w", "weight")
    if is_norm_weight:
        return torch.randint(32, 97, shape, generator=generator).to(torch.float32) / 64
    values = torch.randn(shape, generator=generator, dtype=torch.float32)
    if len(shape) <= 1 or leaf in ("b_Q", "b_K", "b_V", "_b_K", "_b_V"):
        return values * 0.4
    is_embedding = leaf in ("W_E", "W_pos") or any(
        part in name for part in ("embed", "wte", "wpe")) and leaf == "weight"
    if is_embedding:
        return values
    return values * (1.3 / shape[-2] ** 0.5 if len(shape) > 2 else 1.3 / max(shape) ** 0.5)


def check(outputs: dict, where: str) -> None:
    """Numbers must be finite; only masked scores may be -inf."""
    for name, value in outputs.items():
        if not value.is_floating_point():
            continue
        assert value.dtype == torch.float64, f"{where}: {name} is {value.dtype}"
        assert not value.isnan().any(), f"{where}: {name} has NaN"
        infinite = value.isinf()
        if infinite.any():
            assert name.endswith("hook_attn_scores"), f"{where}: {name} has infinities"
            assert (value[infinite] < 0).all(), f"{where}: {name} has +inf"


def _contiguous(tensors: dict) -> dict:
    return {name: t.detach().clone().contiguous() for name, t in sorted(tensors.items())}


def write_case(root: pathlib.Path, golden: Golden) -> dict:
    """Writes a case's folder and returns its row of index.json."""
    folder = root / golden.case
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    if golden.write_model:
        golden.write_model(folder)
    else:
        (folder / "config.json").write_text(json.dumps(golden.config, indent=2) + "\n")
        save_file(_contiguous(golden.weights), folder / "model.safetensors")
    for file, outputs in (("golden", golden.outputs), ("golden_processed", golden.processed),
                          ("gradients", golden.gradients)):
        if outputs:
            check(outputs, f"{golden.case}/{file}")
            save_file(_contiguous(outputs), folder / f"{file}.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    row = {
        "case": golden.case,
        "oracle": golden.oracle,
        "config_options": {**describe(golden.native_config, golden.outputs), **golden.folder_options},
        "processed": golden.processed is not None,
    }
    if golden.processed is not None:
        row["processing"] = golden.processing
    if golden.processed_skipped:
        row["processed_skipped"] = golden.processed_skipped
    if golden.agrees_with:
        row["agrees_with"] = golden.agrees_with
    if golden.gradients:
        row["gradients"] = golden.gradient_metric
    row["exceptions"] = golden.exceptions
    return row


def _padding(mask) -> str:
    if mask is None:
        return "none"
    sides = {"left" if row[0] == 0 else "right" if row[-1] == 0 else "inside" for row in mask.tolist() if 0 in row}
    return "+".join(sorted(sides))


def describe(config: dict, outputs: dict) -> dict:
    """The value of every option of the module graph that a native config chooses, absent fields as defaults."""
    hooked = config.get("hooked", {})
    norm = config.get("normalization_type", "LN")
    architecture = config.get("original_architecture")
    whole = architecture in ("Olmo2ForCausalLM", "OlmoeForCausalLM")
    n_heads, kv = config["n_heads"], config.get("n_key_value_heads")
    gated = config.get("gated_mlp", False)
    act = config.get("act_fn", "relu")
    positions = config.get("positional_embedding_type", "standard")
    both = config.get("use_normalization_before_and_after", False)
    place = hooked.get("norm_place", "both" if both else "output" if architecture == "Olmo2ForCausalLM" else "pre")
    parallel = config.get("parallel_attn_mlp", False)
    attn_scale = config.get("attn_scale", -1)
    final = hooked.get("final_norm", "none" if place == "post" or norm is None else
                       "RMS" if config.get("final_rms") or norm.startswith("RMS") else "LN")
    options = {
        "norm": {None: "none", "LNPre": "LN", "RMSPre": "RMS"}.get(norm, norm),
        "norm_folded": norm in ("LNPre", "RMSPre"),
        "norm_place": place,
        "norm_bias": hooked.get("norm_bias", True),
        "norm_offset": hooked.get("norm_offset", False),
        "final_norm": final,
        "post_embedding_norm": config.get("post_embedding_ln", False),
        "mlp": "none" if config.get("attn_only") else "gated" if gated else "plain",
        "layout": ("parallel_one_norm" if hooked.get("parallel_one_norm") else "parallel_two_norms")
                  if parallel else "serial",
        "positions": positions,
        "heads": "multi_head" if kv in (None, n_heads) else "multi_query" if kv == 1 else "grouped_query",
        "attn_scale": "none" if not config.get("use_attn_scale", True) else
                      "sqrt_d_head" if attn_scale == -1 else "value",
        "scale_by_inverse_layer": config.get("scale_attn_by_inverse_layer_idx", False),
        "window": "none" if not config.get("use_local_attn") else
                  "every_layer" if set(config["attn_types"]) == {"local"} else "some_layers",
        "score_soft_cap": config.get("attn_scores_soft_cap", -1) > 0,
        "logit_soft_cap": config.get("output_logits_soft_cap", -1) > 0,
        "qk_norm": hooked.get("qk_norm", "whole_projection" if whole else
                              "per_head" if config.get("use_qk_norm") else "none"),
        "qkv_bias": hooked.get("qkv_bias", True),
        "attn_out_bias": hooked.get("attn_out_bias", True),
        "unembed_bias": hooked.get("unembed_bias", True),
        "tied_unembedding": hooked.get("tied_unembedding", False),
        "direction": config.get("attention_dir", "causal"),
        "padding": _padding(outputs.get("attention_mask")),
        "d_vocab_out_differs": config.get("d_vocab_out", config["d_vocab"]) != config["d_vocab"],
        "heads_fill_d_model": n_heads * config["d_head"] == config["d_model"],
        "d_vocab_is_d_model": config.get("d_vocab_out", config["d_vocab"]) == config["d_model"],
    }
    if not config.get("attn_only"):
        options |= {
            "activation": "solu" if act == "solu_ln" else act,
            "mlp_norm": act == "solu_ln",
            "mlp_bias": hooked.get("mlp_bias", True),
            "d_mlp_is_d_model": config["d_mlp"] == config["d_model"],
        }
        if gated:
            options["gated_bias_after_product"] = hooked.get("gated_bias_after_product", True)
    if positions == "rotary":
        options |= {
            "rotary_dim": "partial" if config.get("rotary_dim", config["d_head"]) != config["d_head"] else "full",
            "rotary_pairs": "adjacent" if config.get("rotary_adjacent_pairs") else "half_split",
            "rotary_base": "default" if config.get("rotary_base", 10000) == 10000 else "value",
            "rotary_local_base": "rotary_base_local" in config,
            "rotary_scaling": "llama3" if config.get("use_NTK_by_parts_rope") else
                              "yarn" if config.get("use_yarn_rope") else
                              "linear" if config.get("rotary_scaling_factor", 1) != 1 else "none",
        }
        if options["rotary_scaling"] == "yarn":
            options["yarn_truncate"] = config.get("yarn_truncate", hooked.get("yarn_truncate", True))
    return options
