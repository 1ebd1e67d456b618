#!/usr/bin/env python3
"""Compares hooked with transformers on configs that nobody chose.

    pip install -r tests/golden/requirements.txt
    python tests/fuzz/fuzz_configs.py [FAMILY-GLOB ...] [--count 12] [--first 0] [--program build/release/bin/hooked]

For each family of the golden checkpoints it draws configs at random: every flag of the family's config class, head
counts and sizes, biases, windows, kinds of layers, rotary kinds and shares, activations, ratios. Each is built by
transformers with random parameters, saved, and compared in float64 as `make.py compare` does. A config is drawn from its
family and number alone, so one of the table's rows can be run again: `--first 7 --count 1`. Configs that transformers itself
refuses are drawn anew.

It prints what differs and what hooked refuses, and fails if anything differs.
"""
import argparse
import fnmatch
import pathlib
import random
import sys
import tempfile

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from makers.checkpoints import encoder_decoders, hub_models  # noqa: E402
from makers.checkpoints.table import Case, kCases  # noqa: E402
from makers.compare import compare, is_good, kProgram, shown  # noqa: E402

# Text parts of checkpoints of several models, by the name of their first case.
kParts = {case.name: case for case in kCases if case.inside and case.name == f"{case.model_type}_in_{case.inside}"}
kBarts = {case.model_type for case in encoder_decoders.kBartCases}
kFamilies = sorted({case.model_type for case in kCases if not case.inside} | {"mt5", "t5", "umt5", *kBarts} | set(kParts))
kAttempts = 40  # configs drawn for one that transformers accepts

# Flags that say nothing about the model, or make it one of another kind.
kNotFlags = {"use_cache", "is_encoder_decoder", "output_attentions", "output_hidden_states", "return_dict", "add_cross_attention",
             "is_decoder", "output_router_logits", "summary_use_proj", "summary_proj_to_labels", "no_bias", "learned_pos_emb"}
kActivations = [name for name in transformers.activations.ACT2CLS if name not in ("prelu", "xielu")]
kActivationKeys = ("hidden_act", "hidden_activation", "activation_function", "activation", "classifier_activation")
kEpsKeys = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")
# Rotary families that turn a share of each head.
kPartial = ("gpt_neox", "phi", "phi3", "stablelm", "persimmon", "nemotron", "glm", "glm4", "glm4_moe", "minimax_m2", "qwen3_next")
kHeadOfTheirOwn = ("llama", "mistral", "mixtral", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "qwen3", "qwen3_moe", "cohere2",
                   "ernie4_5", "ernie4_5_moe", "helium", "nemotron", "arcee", "seed_oss", "gpt_oss", "exaone4", "phimoe", "qwen2",
                   "smollm3", "granite", "olmo2", "olmo3", "starcoder2", "vaultgemma", "cwm", "ministral3", "hunyuan_v1_dense",
                   "glm4_moe", "dots1", "minimax_m2", "exaone_moe", "solar_open", "hy_v3", "mellum", "ministral", "internlm3",
                   "iquestcoder", "jais2", "hyperclovax", "afmoe", "llama4_text")


def annotations(model_type: str) -> set:
    names = set()
    for base in transformers.CONFIG_MAPPING[model_type].__mro__:
        if base is not transformers.PretrainedConfig and base is not object:
            names |= set(getattr(base, "__annotations__", {}))
    return names - set(transformers.PretrainedConfig.__annotations__)


def flags(model_type: str) -> list:
    config_class = transformers.CONFIG_MAPPING[model_type]
    return sorted(name for name in annotations(model_type) | {"tie_word_embeddings"}
                  if isinstance(getattr(config_class, name, None), bool) and name not in kNotFlags)


def rope_group(rng, dim: int, theta: float, length_dependent: bool) -> dict:
    """The rotary parameters of one kind of layers; `dim` dimensions of a head are turned."""
    group = dict(rope_theta=theta)
    kinds = ["default", "default", "linear", "llama3", "yarn"] + (["longrope", "dynamic"] if length_dependent else [])
    kind = group["rope_type"] = rng.choice(kinds)
    if kind in ("linear", "dynamic"):
        group["factor"] = rng.choice([1.5, 2.0, 8.0])
    if kind == "llama3":
        group |= dict(factor=rng.choice([2.0, 8.0]), low_freq_factor=rng.choice([1.0, 0.5]), high_freq_factor=rng.choice([4.0, 2.0]),
                      original_max_position_embeddings=rng.choice([8, 16, 64]))
    if kind == "yarn":
        group |= dict(factor=rng.choice([2.0, 4.0]), original_max_position_embeddings=rng.choice([8, 16]))
        for key, values in dict(beta_fast=[8.0, 32], beta_slow=[1, 0.5], attention_factor=[1.3, None], mscale=[0.7, 1.0],
                                mscale_all_dim=[0.4, 1.0], truncate=[True, False]).items():
            if rng.random() < 0.3:
                group[key] = rng.choice(values)
    if kind == "longrope":
        group |= dict(short_factor=[rng.uniform(1, 2) for _ in range(dim // 2)],
                      long_factor=[rng.uniform(1, 9) for _ in range(dim // 2)],
                      original_max_position_embeddings=rng.choice([4, 8, 32]))
        if rng.random() < 0.3:
            group["attention_factor"] = rng.choice([1.2, 0.9])
    return group


def sizes(rng, model_type: str) -> dict:
    kv_heads = rng.choice([1, 2, 3])
    heads = kv_heads * rng.choice([1, 1, 2, 3])
    if model_type in ("codegen",):
        heads = 4 * rng.choice([1, 2])
    d_head = rng.choice([2, 4, 6, 8])
    keys = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, num_hidden_layers=rng.choice([1, 2, 3]), num_attention_heads=heads,
                hidden_size=heads * d_head, vocab_size=rng.choice([7, 12, 23, 37]), max_position_embeddings=rng.choice([20, 32, 48]))
    if rng.random() < 0.4:
        keys["vocab_size"] = max(keys["hidden_size"], 5)
    names = annotations(model_type)
    if "num_key_value_heads" in names:
        keys["num_key_value_heads"] = rng.choice([kv_heads, 1, heads])
    if model_type in kHeadOfTheirOwn and rng.random() < 0.6:
        keys["head_dim"] = d_head = rng.choice([2, 4, 6, 10])
    if "indexer_types" in names:
        keys["indexer_types"] = ["full"] + [rng.choice(["full", "shared"]) for _ in range(keys["num_hidden_layers"] - 1)]
    inner = next((key for key in ("intermediate_size", "ffn_dim", "hidden_dim", "ffn_hidden_size", "n_inner", "dff") if key in names), None)
    if model_type == "gpt_neo":
        inner = "intermediate_size"
    if inner:
        usual = inner in ("n_inner", "ffn_hidden_size") or model_type == "gpt_neo"
        keys[inner] = rng.choice([5, 12, 17, keys["hidden_size"]] + ([None] if usual else []))
    return keys | {"-d_head": d_head}


def layer_kinds(rng, keys: dict, names: set) -> None:
    count = keys["num_hidden_layers"]
    if "sliding_window" in names:
        keys["sliding_window"] = rng.choice([1, 2, 3, 4, 5])
    if "local_attention" in names:
        keys["local_attention"] = rng.choice([2, 3, 4, 7])
    if "layer_types" in names and "index_topk" not in names and rng.random() < 0.6:
        marks = dict(sliding_window="sliding_attention", conv_L_cache="conv", linear_num_key_heads="linear_attention",
                     attention_chunk_size="chunked_attention")
        other = next((kind for key, kind in marks.items() if key in names), "full_attention")
        keys["layer_types"] = [rng.choice([other, "full_attention"]) for _ in range(count)]
    if "max_window_layers" in names:
        keys["max_window_layers"] = rng.randrange(count + 1)
    if "sliding_window_pattern" in names and rng.random() < 0.5:
        keys["sliding_window_pattern"] = rng.choice([1, 2, 3])
    if "no_rope_layers" in names and rng.random() < 0.5:
        keys["no_rope_layers"] = [rng.choice([0, 1]) for _ in range(count)]
    if "no_rope_layer_interval" in names:
        keys["no_rope_layer_interval"] = rng.choice([1, 2, 4])
    if keys.get("sliding_window") and not {"layer_types", "max_window_layers"} & names and rng.random() < 0.3:
        keys["sliding_window"] = None


def deepseek_experts(rng, keys: dict, names: set) -> None:
    """DeepSeek-V3's mixtures, whose experts are in groups of at least two."""
    groups = rng.choice([1, 2, 3])
    count = groups * rng.choice([2, 3])
    drawn = dict(n_routed_experts=count, num_experts=count, n_group=groups, topk_group=rng.randint(1, groups),
                 first_k_dense_replace=rng.choice([0, 1, 2]), routed_scaling_factor=rng.choice([1.0, 2.5, 0.7]),
                 n_shared_experts=rng.choice([1, 2]), num_shared_experts=rng.choice([1, 2]),
                 kv_lora_rank=rng.choice([3, 5, 8]), q_lora_rank=rng.choice([4, 9]), qk_nope_head_dim=rng.choice([2, 6]),
                 qk_rope_head_dim=rng.choice([2, 4]), v_head_dim=rng.choice([3, 6, 10]), index_topk=rng.choice([13, 30, 64]),
                 index_n_heads=rng.choice([1, 3]), index_head_dim=rng.choice([4, 6]))
    keys |= {key: value for key, value in drawn.items() if key in names}
    keys["num_experts_per_tok"] = rng.randint(1, keys["topk_group"] * count // groups)
    if "q_lora_rank" in names:
        keys["num_key_value_heads"] = keys["num_attention_heads"]
    if "mlp_layer_types" in names and rng.random() < 0.5:
        keys["mlp_layer_types"] = [rng.choice(["dense", "sparse"]) for _ in range(keys["num_hidden_layers"])]


def experts(rng, keys: dict, names: set, model_type: str) -> None:
    count = rng.choice([2, 3, 5])
    for key in ("num_local_experts", "num_experts", "moe_num_experts"):
        if key in names:
            keys[key] = count
    for key in ("num_experts_per_tok", "moe_k"):
        if key in names:
            keys[key] = rng.randint(1, count)
    for key, values in dict(moe_intermediate_size=[5, 7, keys["hidden_size"]], shared_expert_intermediate_size=[6, 9],
                            decoder_sparse_step=[1, 1, 2], moe_num_shared_experts=[0, 1, 2], moe_layer_start_index=[0, 1],
                            moe_layer_end_index=[-1, 1, 2], moe_layer_interval=[1, 1, 2], moe_norm_min=[1e-12, 0.9],
                            swiglu_alpha=[1.702, 1.1], swiglu_limit=[7.0, 0.6], router_jitter_noise=[0.01, 0.3]).items():
        if key in names:
            keys[key] = rng.choice(values)
    if "n_group" in names and model_type != "deepseek_v2":
        deepseek_experts(rng, keys, names)
    if model_type in ("hy_v3", "mellum") and rng.random() < 0.5:
        keys["mlp_layer_types"] = [rng.choice(["dense", "sparse"]) for _ in range(keys["num_hidden_layers"])]
    if "mlp_only_layers" in names:
        keys["mlp_only_layers"] = rng.choice([[], [0], [1]])


def of_one_family(rng, model_type: str, keys: dict, d_head: int) -> None:
    heads = keys["num_attention_heads"]
    if model_type == "gpt_neo":
        keys["attention_types"] = [[[rng.choice(["global", "local"])], 1] for _ in range(keys["num_hidden_layers"])]
        keys["window_size"] = rng.choice([1, 2, 3, 5])
    if model_type in ("gptj", "codegen"):
        keys["rotary_dim"] = rng.choice([dim for dim in (2, 4, 6, 8) if dim <= d_head])
    if model_type == "opt":
        keys["word_embed_proj_dim"] = rng.choice([keys["hidden_size"], 5, 9])
    if model_type == "mpt":
        keys["attn_config"] = dict(clip_qkv=rng.choice([None, 0.4]), softmax_scale=rng.choice([None, 0.3]))
        keys["max_seq_len"] = keys.pop("max_position_embeddings")
    if model_type == "falcon":
        keys["num_kv_heads"] = rng.choice([k for k in (1, 2, 3, heads) if heads % k == 0])
        keys["num_ln_in_parallel_attn"] = rng.choice([None, 1, 2])
    if model_type in ("olmo", "olmoe"):
        keys["clip_qkv"] = rng.choice([None, 0.5])
    if model_type in ("cohere", "cohere2"):
        keys["logit_scale"] = rng.choice([0.0625, 0.7])
    if model_type in ("granite", "granitemoe", "granitemoehybrid", "granitemoeshared", "hyperclovax"):
        for key in ("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"):
            keys[key] = rng.choice([1.0, 0.3, 2.5])
    # The heads have 128 dimensions where the key is absent, or the class asks for it.
    if model_type in ("internlm3", "iquestcoder", "hunyuan_v1_moe"):
        keys.setdefault("head_dim", d_head)
    if model_type in ("granitemoehybrid", "granitemoeshared"):
        keys["shared_intermediate_size"] = rng.choice([5, 9, keys["hidden_size"]])
    if model_type == "granitemoehybrid":
        keys |= dict(layer_types=["full_attention"] * keys["num_hidden_layers"], mamba_n_heads=1,
                     position_embedding_type=rng.choice([None, "rope"]), num_local_experts=rng.choice([0, keys["num_local_experts"]]))
    if model_type in ("gemma2", "gemma3_text", "vaultgemma"):
        keys["query_pre_attn_scalar"] = rng.choice([7, 16, 100])
        keys["final_logit_softcapping"] = rng.choice([None, 3.0, 30.0])
        if model_type != "gemma3_text":
            keys["attn_logit_softcapping"] = rng.choice([None, 2.0, 50.0])
    if "linear_num_key_heads" in annotations(model_type):
        keys["linear_num_key_heads"] = rng.choice([1, 2, 3])
        keys["linear_num_value_heads"] = keys["linear_num_key_heads"] * rng.choice([1, 2])
        keys |= dict(linear_key_head_dim=rng.choice([2, 5, 8]), linear_value_head_dim=rng.choice([2, 3, 8]),
                     linear_conv_kernel_dim=rng.choice([2, 4]))
        if "linear_attention" in keys.get("layer_types", ["linear_attention"]) or model_type == "olmo_hybrid":
            keys["hidden_act"] = "silu"
        if "layer_types" in keys:
            keys["layer_types"][-1] = "full_attention"
            if model_type == "olmo_hybrid":  # which has both kinds
                keys["num_hidden_layers"] = max(2, keys["num_hidden_layers"])
                keys["layer_types"] = ["linear_attention"] * (keys["num_hidden_layers"] - 1) + ["full_attention"]
        elif model_type == "olmo_hybrid":
            keys["num_hidden_layers"] = max(2, keys["num_hidden_layers"])
        else:
            keys["full_attention_interval"] = rng.choice([1, keys["num_hidden_layers"]])
    if model_type == "lfm2":
        keys["conv_L_cache"] = rng.choice([1, 2, 3, 4, 9])
        keys["block_multiple_of"] = rng.choice([1, 3, 8])
        keys["block_ffn_dim_multiplier"] = rng.choice([0.6, 1.0, 1.7])
        if "layer_types" not in keys and rng.random() < 0.7:
            keys["full_attn_idxs"] = [i for i in range(keys["num_hidden_layers"]) if i == 0 or rng.random() < 0.4]
        elif "conv" in keys.get("layer_types", ()):
            keys["layer_types"][rng.randrange(keys["num_hidden_layers"])] = "full_attention"
    if model_type == "llama4_text":
        keys.setdefault("head_dim", d_head)  # 128 where the key is absent
        keys |= dict(attention_chunk_size=rng.choice([1, 2, 3, 5, 40]), floor_scale=rng.choice([1, 3, 40]),
                     attn_scale=rng.choice([0.0, 0.1, 0.7]), intermediate_size_mlp=rng.choice([6, 11]))
        if rng.random() < 0.5:
            keys["moe_layers"] = [i for i in range(keys["num_hidden_layers"]) if rng.random() < 0.5]
        keys["interleave_moe_layer_step"] = rng.choice([1, 2])
    if model_type.startswith("gemma4"):
        keys.setdefault("head_dim", d_head)  # 256 where the key is absent
        theta = keys["rope_parameters"].get("rope_theta", 100.0)
        if "top_k_experts" in annotations(model_type):
            keys["top_k_experts"] = rng.randint(1, keys["num_experts"])
        keys |= dict(num_kv_shared_layers=rng.choice([0, 0, 1, 2]), global_head_dim=rng.choice([4, 8, keys["head_dim"]]),
                     num_global_key_value_heads=rng.choice([None, 1, heads]), final_logit_softcapping=rng.choice([None, 3.0, 30.0]),
                     rope_parameters=dict(full_attention=dict(rope_type="proportional", rope_theta=theta,
                                                              partial_rotary_factor=rng.choice([0.5, 0.75, 1.0])),
                                          sliding_attention=dict(rope_type="default", rope_theta=rng.choice([theta, 50.0]))))
        if "hidden_size_per_layer_input" in annotations(model_type):
            keys["hidden_size_per_layer_input"] = rng.choice([0, 1, 3, 8])
            keys["vocab_size_per_layer_input"] = keys["vocab_size"] + rng.choice([0, 4])
        keys["use_bidirectional_attention"] = rng.choice([None, "vision", "all"])
        if keys["use_bidirectional_attention"] == "all":  # a window of 1 would be written as one of 0
            keys["sliding_window"] = max(2, keys["sliding_window"])
    if model_type == "nanochat":
        keys["final_logit_softcapping"] = rng.choice([None, 3.0, 30.0])
    if model_type == "ministral3":
        group = keys["rope_parameters"]
        group["llama_4_scaling_beta"] = rng.choice([0.1, 0.7])
        group.setdefault("original_max_position_embeddings", rng.choice([2, 5, 16]))
    if model_type == "openai-gpt":
        keys["afn"] = rng.choice(["gelu", "relu", "silu", "swish"])
    if model_type == "ctrl":
        keys.pop("layer_norm_epsilon", None)  # another one than its blocks' is refused
    if model_type == "electra":
        keys["embedding_size"] = keys["hidden_size"]  # another width is refused
    if model_type in ("bert", "megatron-bert", "electra", "ernie", *hub_models.kRobertas):
        keys["type_vocab_size"] = rng.choice([1, 2, 3])
    if model_type in ("xglm", *hub_models.kRobertas):
        keys["pad_token_id"] = rng.choice([0, 1, 3])


def draw(rng, model_type: str) -> dict:
    """The keys of one config."""
    names = annotations(model_type)
    keys = sizes(rng, model_type)
    d_head = keys.pop("-d_head")
    keys |= {flag: rng.random() < 0.5 for flag in flags(model_type) if rng.random() < 0.7}
    for key in kActivationKeys:
        if key in names and model_type != "apertus" and rng.random() < 0.5:
            keys[key] = rng.choice(kActivations)
    for key in kEpsKeys:
        if key in names and rng.random() < 0.5:
            keys[key] = rng.choice([1e-12, 1e-6, 1e-3, 0.05])
    for key in names:
        if "drop" in key and rng.random() < 0.3:
            keys[key] = 0.1
    layer_kinds(rng, keys, names)
    experts(rng, keys, names, model_type)
    if "rope_parameters" in names:
        theta = rng.choice([100.0, 10000.0, 5e5])
        partial = rng.choice([None, 0.5, 1.0, 0.25]) if model_type in kPartial else None
        turned = d_head if partial is None else int(d_head * partial)
        if model_type in ("gemma3_text", "mellum", "modernbert", "modernbert-decoder", "olmo3"):
            keys["rope_parameters"] = dict(full_attention=rope_group(rng, d_head, theta, False),
                                           sliding_attention=dict(rope_type="default", rope_theta=rng.choice([theta, 50.0])))
        else:
            group = keys["rope_parameters"] = rope_group(rng, turned, theta, length_dependent=True)
            if partial is not None:
                group["partial_rotary_factor"] = partial
            if group["rope_type"] == "longrope":
                keys["original_max_position_embeddings"] = group["original_max_position_embeddings"]
    of_one_family(rng, model_type, keys, d_head)
    return keys


def draw_two_stacks(rng) -> dict:
    """The keys of one config of T5 or mT5."""
    heads, width = rng.choice([1, 2, 3]), rng.choice([2, 4, 5, 8])
    return dict(d_model=rng.choice([heads * width, 6, 12]), d_kv=width, num_heads=heads, d_ff=rng.choice([5, 12, 17]),
                num_layers=rng.choice([1, 2, 3]), num_decoder_layers=rng.choice([1, 2, 3]), vocab_size=rng.choice([7, 12, 23]),
                feed_forward_proj=rng.choice(["relu", "gated-gelu", "gelu", "gated-silu", "silu", "gated-relu"]),
                relative_attention_num_buckets=rng.choice([2, 4, 7, 8, 32]),
                relative_attention_max_distance=rng.choice([20, 50, 128]), layer_norm_epsilon=rng.choice([1e-6, 1e-3, 0.05]),
                tie_word_embeddings=rng.random() < 0.5, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)


def draw_bart(rng) -> dict:
    """The keys of one config of BART or what grew out of it."""
    heads = rng.choice([1, 2, 3])
    wide = rng.choice([5, 12, 17])
    return dict(d_model=heads * rng.choice([2, 4, 5]) if heads > 1 else rng.choice([4, 5, 8]), encoder_attention_heads=heads,
                decoder_attention_heads=heads, encoder_ffn_dim=wide, decoder_ffn_dim=wide, encoder_layers=rng.choice([1, 2, 3]),
                decoder_layers=rng.choice([1, 2, 3]), vocab_size=rng.choice([7, 12, 23]), max_position_embeddings=64,
                activation_function=rng.choice(kActivations), scale_embedding=rng.random() < 0.5,
                tie_word_embeddings=rng.random() < 0.7, decoder_start_token_id=0, pad_token_id=1, bos_token_id=0, eos_token_id=2)


def head_of(model_type: str):
    return next(case.head for case in kCases if case.model_type == model_type)


def drawn_part(rng, base: Case, name: str) -> Case:
    """The text part of a checkpoint of several models, whose others are the table's."""
    keys = draw(rng, base.model_type)
    if base.inside == "gemma3":  # where it is refused: transformers' kernels disagree about it
        keys.pop("use_bidirectional_attention", None)
    if "_vl_" in base.model_type:
        half = (keys.get("head_dim") or keys["hidden_size"] // keys["num_attention_heads"]) // 2
        first = rng.randint(0, half)
        keys.setdefault("rope_parameters", dict(rope_type="default", rope_theta=1000.0))["mrope_section"] = [first, half - first, 0]
    return Case(name, base.model_type, keys, length=rng.choice([1, 3, 9, 13]), greedy=False, inside=base.inside, whole=base.whole)


def drawn_case(rng, model_type: str, name: str):
    """(the module that makes the model, the case)."""
    if model_type in ("mt5", "t5", "umt5"):
        lengths = dict(length=rng.choice([1, 3, 9, 25]), decoder_length=rng.choice([1, 2, 7, 19]))
        return encoder_decoders, encoder_decoders.TwoStackCase(name, model_type, draw_two_stacks(rng), **lengths,
                                                               padded=lengths["length"] > 4 and rng.random() < 0.3)
    if model_type in kBarts:
        lengths = dict(length=rng.choice([1, 3, 9, 25]), decoder_length=rng.choice([1, 2, 7, 19]))
        return encoder_decoders, encoder_decoders.TwoStackCase(name, model_type, draw_bart(rng), **lengths,
                                                               padded=lengths["length"] > 4 and rng.random() < 0.3)
    if model_type in kParts:
        return hub_models, drawn_part(rng, kParts[model_type], name)
    keys = draw(rng, model_type)
    return hub_models, Case(name, model_type, keys, length=rng.choice([1, 3, 9, 13]), eager=not keys.get("alibi", False),
                            head=head_of(model_type), greedy=False)


def build_case(model_type: str, number: int):
    """(source, case, model, recorded activations) of the number-th config of a family, or None."""
    for attempt in range(kAttempts):
        rng = random.Random(f"{model_type}/{number}/{attempt}")
        source, case = drawn_case(rng, model_type, f"{model_type}_{number}")
        if case.keys.get("vocab_size", 5) < 5:
            continue
        try:
            return (source, case, *source.record(case))
        except Exception as error:  # transformers does not accept the config
            last = error
    print(f"{model_type:14} transformers accepts none: {type(last).__name__}: {str(last)[:150]}")
    return None


def run_one(model_type: str, number: int, program: str) -> str:
    """ok, differs, refused or none."""
    built = build_case(model_type, number)
    if built is None:
        return "none"
    source, case, model, expected = built
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / case.name
        source.write_folder(model, case, folder)
        try:
            worst = compare(folder, expected, program)
        except RuntimeError as error:
            print(f"{case.name:18} REFUSED  {error}\n    {case.keys}", flush=True)
            return "refused"
    if is_good(worst):
        return "ok"
    print(f"{case.name:18} DIFFERS  {shown(worst)}\n    {case.keys} length {case.length}", flush=True)
    return "differs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("globs", nargs="*")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--program", default=kProgram)
    options = parser.parse_args()
    torch.set_num_threads(1)
    totals = {}
    for model_type in kFamilies:
        if options.globs and not any(fnmatch.fnmatch(model_type, glob) for glob in options.globs):
            continue
        outcomes = [run_one(model_type, number, options.program) for number in range(options.first, options.first + options.count)]
        counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
        print(f"{model_type:18} {counts}", flush=True)
        for outcome, count in counts.items():
            totals[outcome] = totals.get(outcome, 0) + count
    print(totals, file=sys.stderr)
    return 1 if totals.get("differs") else 0


if __name__ == "__main__":
    sys.exit(main())
