"""What transformers makes of configs that say a number of rotary positions in several places: the frequencies and the magnitude of each
kind of layer. Each family is asked with every spelling; where transformers refuses one, nothing is recorded."""

import json
import pathlib

import torch
import transformers
from transformers import AutoModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

kFile = pathlib.Path(__file__).resolve().parent.parent / "rope_spellings.json"

kSizes = dict(hidden_size=32, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16, vocab_size=11,
              max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)

kYarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
kLlama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
kFlat = {
    "nothing": {},
    "theta_above": dict(rope_theta=5e5),
    "theta_inside": dict(rope_parameters=dict(rope_type="default", rope_theta=5e5)),
    "theta_in_both": dict(rope_theta=1e6, rope_parameters=dict(rope_type="default", rope_theta=5e5)),
    "theta_above_of_older_style": dict(rope_theta=1e6, rope_scaling=dict(rope_type="linear", factor=2.0)),
    "share_above": dict(partial_rotary_factor=0.5),
    "share_inside": dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)),
    "share_in_both": dict(partial_rotary_factor=0.5, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.25)),
    "empty_scaling": dict(rope_scaling={}, rope_parameters=kYarn | dict(rope_theta=1e4)),
    "null_scaling": dict(rope_scaling=None, rope_parameters=kYarn | dict(rope_theta=1e4)),
    "empty_parameters": dict(rope_parameters={}),
    "both_groups": dict(rope_scaling=dict(rope_type="linear", factor=2.0), rope_parameters=kYarn),
    "older_name_of_the_kind": dict(rope_scaling=dict(type="linear", factor=2.0)),
    "two_names_of_the_kind": dict(rope_scaling=dict(type="dynamic", rope_type="linear", factor=2.0)),
    "no_kind": dict(rope_scaling=dict(factor=2.0)),
    "linear": dict(rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=1e4)),
    "yarn": dict(rope_scaling=kYarn),
    "yarn_without_context": dict(rope_scaling=dict(rope_type="yarn", factor=4.0)),
    "yarn_without_factor": dict(rope_scaling=kYarn | dict(factor=None)),
    "yarn_context_above": dict(original_max_position_embeddings=32, rope_scaling=dict(rope_type="yarn", factor=4.0)),
    "yarn_context_in_both": dict(original_max_position_embeddings=32, rope_scaling=kYarn),
    "yarn_null_attention_factor": dict(rope_scaling=kYarn | dict(attention_factor=None)),
    "yarn_attention_factor": dict(rope_scaling=kYarn | dict(attention_factor=1.5)),
    "yarn_zero_beta_fast": dict(rope_scaling=kYarn | dict(beta_fast=0)),
    "yarn_mscales": dict(rope_scaling=kYarn | dict(mscale=1.2, mscale_all_dim=0.7)),
    "yarn_with_factors_of_longrope": dict(rope_scaling=kYarn | dict(short_factor=[1.0] * 8, long_factor=[2.0] * 8)),
    "llama3": dict(rope_scaling=kLlama3),
    "llama3_context_in_both": dict(original_max_position_embeddings=32, rope_scaling=kLlama3),
    "longrope": dict(rope_scaling=dict(rope_type="longrope", short_factor=[1.0 + i / 8 for i in range(8)], long_factor=[2.0 + i for i in range(8)],
                                       original_max_position_embeddings=64)),
    "longrope_context_in_both": dict(original_max_position_embeddings=32, rope_scaling=dict(
        rope_type="longrope", short_factor=[1.0 + i / 8 for i in range(8)], long_factor=[2.0 + i for i in range(8)], original_max_position_embeddings=64)),
    "longrope_as_su": dict(rope_scaling=dict(type="su", short_factor=[1.0] * 8, long_factor=[2.0] * 8)),
}
kFull = dict(rope_type="default", rope_theta=2e5)
kWindowed = dict(rope_type="default", rope_theta=2e3)
kTypes = dict(layer_types=["sliding_attention", "full_attention"], sliding_window=8)
kLayered = {
    "nothing": {},
    "theta_above": dict(rope_theta=5e5),
    "bases_above": dict(rope_theta=5e5, rope_local_base_freq=3e3, global_rope_theta=7e5, local_rope_theta=4e3),
    "groups": dict(rope_parameters=dict(full_attention=kFull, sliding_attention=kWindowed)),
    "groups_and_bases_above": dict(rope_theta=5e5, rope_local_base_freq=3e3, global_rope_theta=7e5, local_rope_theta=4e3,
                                   rope_parameters=dict(full_attention=kFull, sliding_attention=kWindowed)),
    "groups_without_theta": dict(rope_theta=5e5, rope_local_base_freq=3e3, global_rope_theta=7e5, local_rope_theta=4e3,
                                 rope_parameters=dict(full_attention=dict(rope_type="default"), sliding_attention=dict(rope_type="default"))),
    "groups_without_any_theta": dict(rope_parameters=dict(full_attention=dict(rope_type="default"), sliding_attention=dict(rope_type="default"))),
    "groups_and_empty_scaling": dict(rope_scaling={}, rope_parameters=dict(full_attention=kFull, sliding_attention=kWindowed)),
    "groups_and_scaling": dict(rope_scaling=dict(rope_type="linear", factor=8.0), rope_parameters=dict(full_attention=kFull, sliding_attention=kWindowed)),
    "scaled_group": dict(rope_parameters=dict(full_attention=kYarn | dict(rope_theta=2e5), sliding_attention=kWindowed)),
    "scaled_group_and_context_above": dict(original_max_position_embeddings=32,
                                           rope_parameters=dict(full_attention=kYarn | dict(rope_theta=2e5), sliding_attention=kWindowed)),
    "older_scaling": dict(rope_scaling=dict(rope_type="linear", factor=8.0)),
    "older_scaling_and_base": dict(rope_theta=5e5, rope_scaling=dict(rope_type="linear", factor=8.0)),
    "older_scaling_by_type": dict(rope_scaling=dict(type="linear", factor=8.0)),
}
kFamilies = {"llama": (kFlat, {}), "phi3": (kFlat, {}), "glm": (kFlat, {}), "gpt_oss": (kFlat, kTypes), "apertus": (kFlat, {}), "cwm": (kFlat, kTypes),
             "gpt_neox": (kFlat, {}), "gemma3_text": (kLayered, kTypes), "olmo3": (kLayered, kTypes), "modernbert": (kLayered, dict(local_attention=8, head_dim=None)),
             "mellum": (kLayered, kTypes | dict(moe_intermediate_size=8, num_experts=4, num_experts_per_tok=2))}


def kinds_of(model_type: str, keys: dict) -> dict:
    config = CONFIG_MAPPING[model_type].from_dict(json.loads(json.dumps(keys)))
    rotary = next(m for m in AutoModel.from_config(config).modules() if type(m).__name__.endswith("RotaryEmbedding"))
    kinds = {}
    for kind, prefix in (("full", "full_attention_"), ("windowed", "sliding_attention_"), ("full", "")):
        frequencies = getattr(rotary, prefix + "inv_freq", None)
        if frequencies is None:
            continue
        scaling = getattr(rotary, prefix + "attention_scaling", 1.0)
        kinds[kind] = dict(frequencies=[float(f"{f:.8g}") for f in frequencies], magnitude=float(f"{scaling:.8g}"))
    return kinds


def main(arguments: list) -> None:
    rows, bases = [], {}
    for model_type, (spellings, more) in kFamilies.items():
        bases[model_type] = dict(model_type=model_type) | kSizes | more
        for name, keys in spellings.items():
            config = bases[model_type] | keys
            try:
                with torch.device("cpu"):
                    rows.append(dict(name=f"{model_type}_{name}", config=dict(model_type=model_type) | keys, kinds=kinds_of(model_type, config)))
            except Exception as error:  # whatever it is, there is nothing to compare with
                print(f"{model_type} {name}: transformers refuses it ({type(error).__name__}: {str(error)[:80]})")
    text = lambda value: json.dumps(value, separators=(",", ":"))  # noqa: E731
    lines = ",\n".join(text(row) for row in rows)
    kFile.write_text(f'{{"oracle":"transformers {transformers.__version__}","bases":{text(bases)},"rows":[\n{lines}\n]}}\n')
    print(f"{len(rows)} rows")
