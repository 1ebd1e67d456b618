"""Checkpoints as transformers saves them: a row per case, config keys of transformers beside the family's sizes.

Sizes are awkward on purpose: n_heads * d_head is not d_model, d_mlp or d_vocab equals d_model, key/value heads are
several counts, and the tokens are longer than the windows and than the trained context of length-dependent rotary.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """One model. `keys` go to the family's config class; `golden` cases are committed and run without Python.

    `eager` false: transformers' eager attention is wrong for this config, so patterns are not compared.
    `cached` false: transformers remembers keys of other angles than those of the whole row, so the greedy continuation
    is recorded without its cache.
    `inside` is the `model_type` of the checkpoint of several models that the model is the text part of, and `whole` what
    else that one's config class takes. `stored` is a format of storage.py in which matrices are written.
    """

    name: str
    model_type: str
    keys: dict
    length: int = 11
    golden: bool = True
    eager: bool = True
    cached: bool = True
    greedy: bool = True  # whether a continuation is compared too
    head: str | None = "CausalLM"  # of transformers' AutoModelFor...; None is AutoModel, without a head
    written: dict = dataclasses.field(default_factory=dict)  # keys replaced in the written config.json; None drops one
    inside: str | None = None
    whole: dict = dataclasses.field(default_factory=dict)
    stored: str | None = None
    padded: int = 0  # columns of padding on the left of the last row, or on its right where negative


kIds = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
kLlama = dict(kIds, hidden_size=12, intermediate_size=15, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, vocab_size=23, max_position_embeddings=32)
kPlain = {k: v for k, v in kLlama.items() if k != "num_key_value_heads"} | dict(num_attention_heads=2)
kGpt2 = dict(bos_token_id=1, eos_token_id=2, n_embd=12, n_layer=2, n_head=2, n_positions=32, vocab_size=23)
kSixteen = dict(kLlama, hidden_size=16)
kFour = dict(num_hidden_layers=4)
kLfm2 = dict(kIds, hidden_size=16, intermediate_size=21, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=23, max_position_embeddings=32, block_multiple_of=3, rope_parameters=dict(rope_type="default",
                                                                                                 rope_theta=1000.0))
# Axes that are whole words of four bits, and whole groups.
kWholeGroups = dict(hidden_size=32, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                    num_hidden_layers=1, length=5)


def rope(kind="default", **parameters):
    return dict(rope_parameters=dict(rope_type=kind, **({"rope_theta": 1000.0} | parameters)))


kLlama3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
kYarn = rope("yarn", factor=4.0, original_max_position_embeddings=8)
kLongrope = rope("longrope", short_factor=[1.0, 1.1, 1.3, 1.5], long_factor=[2.0, 3.0, 4.0, 6.0])
kLayers = ["sliding_attention", "full_attention"]
# A row that begins with padding, and one that ends with it.
kPadded = dict(padded=3, length=7, greedy=False, num_hidden_layers=2)
kPaddedRight = kPadded | dict(padded=-3)
kPaddedOne = dict(padded=3, length=7, greedy=False, n_layer=1)


def rows(model_type, base, **variants):
    """A case for the base config and one for each variant's keys."""
    shared = {k: base[k] for k in ("head",) if k in base}
    base = {k: v for k, v in base.items() if k not in shared}
    family = model_type.replace("-", "_")
    cases = [Case(family, model_type, base, **shared)]
    for name, keys in variants.items():
        keys = shared | keys
        case = {k: keys[k] for k in ("length", "golden", "eager", "cached", "greedy", "head", "written", "stored", "padded") if k in keys}
        keys = {k: v for k, v in keys.items() if k not in case}
        cases.append(Case(f"{family}_{name}", model_type, base | keys, **case))
    return cases


def part(inside, model_type, keys, whole, length=5, golden=True, **variants):
    """Cases of a text model inside of a checkpoint of several models: the base one, and one for each variant's keys."""
    name = f"{model_type}_in_{inside}"
    base = Case(name, model_type, keys, length=length, golden=golden, inside=inside, whole=whole)
    of_case = lambda more: {k: more[k] for k in ("length", "greedy", "padded", "golden") if k in more}
    return [base] + [dataclasses.replace(base, name=f"{name}_{variant}", **dict(golden="padded" in more) | of_case(more),
                                         keys=keys | {k: v for k, v in more.items() if k not in of_case(more)})
                     for variant, more in variants.items()]


# The other models of a checkpoint, as small as they can be.
kTower = dict(hidden_size=4, intermediate_size=6, num_hidden_layers=1, num_attention_heads=2, image_size=4, patch_size=2)
kSiglip = dict(vision_config=dict(kTower, model_type="siglip_vision_model", vision_use_head=False))
kClip = dict(vision_config=dict(kTower, model_type="clip_vision_model", projection_dim=4))
kPixtral = dict(vision_config=dict(kTower, model_type="pixtral", num_attention_heads=1, head_dim=4))
kQwenTower = dict(depth=1, hidden_size=8, intermediate_size=6, num_heads=2, patch_size=2, in_channels=1, temporal_patch_size=1,
                  spatial_merge_size=1)
kQwen2Eye = dict(vision_config=dict(depth=1, embed_dim=8, hidden_size=16, mlp_ratio=1, num_heads=2, patch_size=2, in_channels=1,
                                    temporal_patch_size=1, spatial_merge_size=1))
kQwen25Eye = dict(vision_config=dict(kQwenTower, out_hidden_size=16, window_size=4, fullatt_block_indexes=[0]))
kQwen3Eye = dict(vision_config=dict(kQwenTower, out_hidden_size=16, num_position_embeddings=4, deepstack_visual_indexes=[0]))


kGemma4Others = dict(
    vision_config=dict(hidden_size=4, intermediate_size=6, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                       head_dim=4, patch_size=2, position_embedding_size=4, pooling_kernel_size=1),
    audio_config=dict(hidden_size=4, num_hidden_layers=1, num_attention_heads=2, subsampling_conv_channels=[2, 2],
                      output_proj_dims=6))
kGemma4UnifiedOthers = dict(vision_config=dict(patch_size=2, pooling_kernel_size=1, mm_embed_dim=4, mm_posemb_size=4,
                                               output_proj_dims=4), audio_config=dict(audio_embed_dim=4))

kNeo = dict(bos_token_id=1, eos_token_id=2, hidden_size=12, num_layers=2, num_heads=2, vocab_size=23,
            max_position_embeddings=32, attention_types=[[["global", "local"], 1]], window_size=4)
kJ = dict(kGpt2, n_head=4, n_embd=32, rotary_dim=4)
kOpt = dict(kIds, hidden_size=12, ffn_dim=15, num_hidden_layers=2, num_attention_heads=2, vocab_size=23,
            max_position_embeddings=32, word_embed_proj_dim=12)
kBloom = dict(kIds, hidden_size=12, n_layer=2, n_head=3, vocab_size=23)
kMpt = dict(d_model=12, n_heads=3, n_layers=2, vocab_size=23, max_seq_len=32)
kFalcon = dict(bos_token_id=1, eos_token_id=2, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
               vocab_size=23)
kGemma = dict(kLlama, head_dim=8)
kGemma4 = dict(kGemma, head_dim=6, global_head_dim=8, num_hidden_layers=3, sliding_window=4, hidden_size_per_layer_input=0,
               vocab_size_per_layer_input=23, layer_types=["sliding_attention", "full_attention", "full_attention"],
               rope_parameters=dict(full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=1000.0),
                                    sliding_attention=dict(rope_type="default", rope_theta=100.0)))
kGemma4Experts = dict(enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=7)
kGemma4Unified = {k: v for k, v in kGemma4.items() if "per_layer_input" not in k}
kXglm = dict(kIds, d_model=12, ffn_dim=15, num_layers=2, attention_heads=2, vocab_size=23, max_position_embeddings=32)

kMoe = dict(kLlama, hidden_size=16, num_local_experts=5, num_experts_per_tok=2)
# Twice the width of its experts is the model's: their shapes do not show whether matrices are transposed.
kLlama4 = dict(kLlama, **kFour, head_dim=6, intermediate_size=6, intermediate_size_mlp=15, num_local_experts=3,
               attention_chunk_size=4, floor_scale=3, attn_scale=0.3)
kLlama4Vision = dict(vision_config=dict(hidden_size=8, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                        image_size=4, patch_size=2, vision_output_dim=8, projector_input_dim=8,
                                        projector_output_dim=8))
kGrowth = rope("yarn", factor=4.0, original_max_position_embeddings=4, beta_fast=8, beta_slow=0.1, mscale=1.0,
               mscale_all_dim=1.0, llama_4_scaling_beta=0.3)
kQwenMoe = dict({k: v for k, v in kMoe.items() if k != "num_local_experts"}, num_experts=5, moe_intermediate_size=7)
kHybrid = dict(kLlama, hidden_size=16, shared_intermediate_size=9, layer_types=["full_attention"] * 2, mamba_n_heads=1,
               embedding_multiplier=3.0, logits_scaling=1.7, residual_multiplier=0.3, attention_multiplier=0.11)
kQwenNext = dict(kQwenMoe, num_hidden_layers=3, head_dim=8, shared_expert_intermediate_size=9, linear_num_key_heads=2,
                 linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=5, linear_conv_kernel_dim=4,
                 layer_types=["linear_attention", "full_attention", "linear_attention"], **rope(partial_rotary_factor=0.25))
kOlmoHybrid = dict(kSixteen, num_hidden_layers=3, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6,
                   linear_value_head_dim=5, layer_types=["linear_attention", "full_attention", "linear_attention"],
                   **rope(rope_theta=1000.0))
kQwen35 = {k: v for k, v in kQwenNext.items() if "expert" not in k and k not in ("intermediate_size", "moe_intermediate_size",
                                                                                 "rope_parameters")}
kQwen35 |= rope(partial_rotary_factor=0.5, mrope_section=[1, 1, 0], mrope_interleaved=True)
kQwen35Vision = dict(vision_config=dict(kQwenTower, out_hidden_size=16, num_position_embeddings=4))
kOlmoe = {k: v for k, v in kQwenMoe.items() if k != "moe_intermediate_size"}
kErnieMoe = dict({k: v for k, v in kMoe.items() if k not in ("num_local_experts", "num_experts_per_tok")}, head_dim=6,
                 moe_num_experts=5, moe_k=2, moe_intermediate_size=7, moe_num_shared_experts=2)
kDeepseek = dict(kPlain, hidden_size=14, max_position_embeddings=48, q_lora_rank=9, kv_lora_rank=5,
                 qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=10, n_routed_experts=6, num_experts_per_tok=3,
                 moe_intermediate_size=7, first_k_dense_replace=1)
kDeepseek2 = dict(kDeepseek, kv_lora_rank=8, n_shared_experts=2, routed_scaling_factor=1.7)
kDeepseek3 = dict(kDeepseek, num_key_value_heads=2, n_group=3, topk_group=2)
kDeepseek32 = dict(kDeepseek3, index_topk=40, index_n_heads=3, index_head_dim=6)
# DeepSeek-V3's mixtures after other attention.
kGroups = dict(n_group=3, topk_group=2, num_experts_per_tok=3, moe_intermediate_size=7, routed_scaling_factor=1.7,
               first_k_dense_replace=1)
kOneGroup = dict(n_group=1, topk_group=1, norm_topk_prob=False, first_k_dense_replace=0)
kGlm4Moe = dict(kLlama, **kGroups, head_dim=8, n_routed_experts=6)
kDots1 = dict(kLlama, **kGroups, head_dim=8, n_routed_experts=6, n_shared_experts=2)
kExaoneMoe = dict(kLlama, **kGroups, head_dim=8, num_experts=6, sliding_window=4)
kMoeOf = dict(kLlama, head_dim=6, num_experts_per_tok=2)
kMinimaxM2 = dict(kLlama, head_dim=6, num_local_experts=5, num_experts_per_tok=2)
kMscale = rope("yarn", factor=4.0, rope_theta=100.0, original_max_position_embeddings=8, mscale=0.7, mscale_all_dim=1.3,
               beta_fast=8, beta_slow=0.1)
kOlderMscale = dict(rope_scaling=dict(type="yarn", factor=4, original_max_position_embeddings=8, mscale=0.7,
                                      mscale_all_dim=1.3, beta_fast=8, beta_slow=0.1))
kPhiMoeRope = dict(rope("longrope", short_factor=[1.0, 1.3], long_factor=[2.0, 4.0], short_mscale=1.2, long_mscale=0.9,
                        original_max_position_embeddings=16), head_dim=4)
kBert = dict(pad_token_id=0, hidden_size=12, intermediate_size=15, num_hidden_layers=3, num_attention_heads=3,
             vocab_size=23, max_position_embeddings=16, head="MaskedLM")
kRoberta = dict(kBert, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
kDistilbert = dict(pad_token_id=0, dim=12, hidden_dim=15, n_layers=3, n_heads=3, vocab_size=23,
                   max_position_embeddings=16, head="MaskedLM")

kModernBertRope = dict(full_attention=dict(rope_type="default", rope_theta=1000.0),
                       sliding_attention=dict(rope_type="default", rope_theta=100.0))
kModernBert = dict(kIds, cls_token_id=1, sep_token_id=2, hidden_size=12, intermediate_size=15, num_hidden_layers=3,
                   num_attention_heads=3, vocab_size=23, max_position_embeddings=32, local_attention=4,
                   rope_parameters=kModernBertRope)

# For plain MLPs; those that other cases lack.
kActivations = ("gelu_10", "gelu_accurate", "gelu_python_tanh", "hardswish", "laplace", "leaky_relu", "linear", "mish",
                "relu6", "sqrtsoftplus", "tanh")

kCases = [
    *rows("gpt2", kGpt2,
          int8=dict(stored="int8", n_layer=1, length=5),
          equal_sizes=dict(n_inner=12, vocab_size=12),
          options=dict(scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False, activation_function="relu",
                       tie_word_embeddings=False),
          **{name: dict(n_layer=1, activation_function=name) for name in kActivations}),
    *rows("gpt_neo", kNeo,
          all_global=dict(attention_types=[[["global"], 2]], intermediate_size=12, activation_function="relu"),
          three_layers=dict(num_layers=3, attention_types=[[["local", "global", "local"], 1]])),
    *rows("gptj", kJ,
          whole_head=dict(rotary_dim=8, n_inner=17, tie_word_embeddings=True)),
    *rows("gpt_neox", dict(kPlain, hidden_size=16, **rope(partial_rotary_factor=0.5)),
          serial=dict(use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new",
                      tie_word_embeddings=True),
          older_style=dict(written=dict(rope_parameters=None, rotary_pct=0.5, rotary_emb_base=1000),
                           num_hidden_layers=1),
          yarn=dict(rope("yarn", factor=4.0, original_max_position_embeddings=8, partial_rotary_factor=1.0))),
    *rows("codegen", dict(kJ, n_head=8, n_embd=32, rotary_dim=2)),
    *rows("opt", kOpt,
          post_norm=dict(do_layer_norm_before=False, word_embed_proj_dim=8),
          projected=dict(word_embed_proj_dim=7, tie_word_embeddings=False),
          bare=dict(enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu"),
          no_final_norm=dict(_remove_final_layer_norm=True, ffn_dim=12)),
    *rows("bloom", kBloom, power_of_two=dict(n_head=4, vocab_size=12),
          normed_stream=dict(apply_residual_connection_post_layernorm=True)),
    *rows("mpt", kMpt,
          options=dict(n_heads=4, expansion_ratio=1,
                       attn_config=dict(clip_qkv=0.5, softmax_scale=0.3, alibi_bias_max=4, qk_ln=False))),
    *rows("falcon", kFalcon,
          serial_alibi=dict(alibi=True, multi_query=False, parallel_attn=False, bias=True, eager=False),
          parallel_alibi=dict(alibi=True, eager=False, num_attention_heads=6),
          new=dict(new_decoder_architecture=True, num_kv_heads=2, num_attention_heads=6, hidden_size=24),
          new_one_norm=dict(new_decoder_architecture=True, num_ln_in_parallel_attn=1, num_kv_heads=3, bias=True,
                            ffn_hidden_size=12),
          serial=dict(multi_query=False, parallel_attn=False, tie_word_embeddings=False)),
    *rows("gpt_bigcode", kGpt2, multi_head=dict(multi_query=False, n_inner=12, scale_attn_weights=False)),
    *rows("starcoder2", dict(kLlama, sliding_window=4, head_dim=8),
          bare=dict(use_bias=False, sliding_window=None, tie_word_embeddings=False)),
    *rows("llama", dict(kLlama, head_dim=8),
          biases=dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
          multi_query=dict(num_key_value_heads=1, hidden_act="gelu", rms_norm_eps=1e-3),
          fp8_rows=dict(stored="fp8_rows", length=5), fp8_tensor=dict(stored="fp8_tensor", golden=False),
          fbgemm=dict(stored="fbgemm", golden=False),
          **{form: dict(kWholeGroups, stored=form) for form in ("gptq", "awq", "packed", "nf4")},
          equal_sizes=dict(intermediate_size=12, vocab_size=12, num_key_value_heads=4, head_dim=2),
          linear=rope("linear", factor=4.0),
          dynamic=dict(rope("dynamic", factor=2.0), max_position_embeddings=6),
          llama3=kLlama3, yarn=kYarn,
          yarn_mscale=rope("yarn", factor=4.0, original_max_position_embeddings=8, mscale=0.7, mscale_all_dim=0.4,
                           beta_fast=4.0, beta_slow=0.5, truncate=False),
          longrope=dict(kLongrope, written=dict(original_max_position_embeddings=8),
                        original_max_position_embeddings=8),
          longrope_short=dict(kLongrope, cached=False, original_max_position_embeddings=16),
          older_style=dict(kLlama3, written=dict(rope_parameters=None, rope_theta=1000.0, dtype=None,
                                                 torch_dtype="float32",
                                                 rope_scaling=dict(type="llama3", factor=8.0, low_freq_factor=1.0,
                                                                   high_freq_factor=4.0,
                                                                   original_max_position_embeddings=16)))),
    *rows("mistral", dict(kLlama, head_dim=8, sliding_window=4), full=dict(sliding_window=None, head_dim=2)),
    *rows("ministral", dict(kLlama, head_dim=8, sliding_window=4, layer_types=kLayers),
          every=dict(layer_types=None, head_dim=2, tie_word_embeddings=True)),
    *rows("internlm3", dict(kLlama, head_dim=8),
          biases=dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                      written=dict(attention_bias=None, mlp_bias=None, qkv_bias=True, bias=True))),
    *rows("iquestcoder", dict(kLlama, head_dim=8),
          biases=dict(attention_bias=True, mlp_bias=True, num_key_value_heads=1, tie_word_embeddings=True,
                      written=dict(clip_qkv=None, use_sliding_window=False, sliding_window=4))),
    *rows("jais2", dict(kLlama, head_dim=8), bare=dict(attention_bias=False, mlp_bias=False, tie_word_embeddings=True)),
    *rows("qwen2", kSixteen,
          int8=dict(stored="integers", num_hidden_layers=1, length=5),
          windows=dict(kFour, use_sliding_window=True, sliding_window=4, max_window_layers=2),
          layer_types=dict(use_sliding_window=True, sliding_window=4, layer_types=kLayers, tie_word_embeddings=True)),
    *rows("qwen3", dict(kLlama, head_dim=8),
          options=dict(attention_bias=True, use_sliding_window=True, sliding_window=4, max_window_layers=1,
                       tie_word_embeddings=True)),
    *rows("lfm2", dict(kLfm2, layer_types=["conv", "full_attention", "conv"]),
          biases=dict(layer_types=None, full_attn_idxs=[0, 2], num_hidden_layers=4, conv_bias=True, conv_L_cache=4,
                      tie_word_embeddings=False, block_auto_adjust_ff_dim=False, norm_eps=1e-3),
          long_filter=dict(layer_types=["full_attention", "conv"], num_hidden_layers=2, conv_L_cache=7, length=5,
                           block_ffn_dim_multiplier=1.3, block_multiple_of=5, num_key_value_heads=4),
          attention=dict(num_hidden_layers=1, layer_types=None, block_ffn_dim_multiplier=0.7),
          published=dict(layer_types=None, full_attn_idxs=[1], written=dict(
              layer_types=None, rope_parameters=None, rope_theta=1000.0, intermediate_size=None, block_ff_dim=21,
              block_dim=16, block_mlp_init_scale=1.0, block_norm_eps=1e-5, block_out_init_scale=1.0, block_use_swiglu=True,
              conv_dim=16, conv_use_xavier_init=True, num_heads=4, use_pos_enc=True, dtype=None,
              torch_dtype="bfloat16")),
          padded=dict(kPadded, num_hidden_layers=3)),
    *rows("phi", dict(kLlama, hidden_size=32), qk_norm=dict(qk_layernorm=True, num_key_value_heads=4)),
    *rows("phi3", dict(kLlama, hidden_size=32, original_max_position_embeddings=32),
          window=dict(sliding_window=4, num_key_value_heads=1),
          longrope=dict(kLongrope, original_max_position_embeddings=8),
          partial=dict(rope(partial_rotary_factor=0.5), tie_word_embeddings=True)),
    *rows("gemma", kGemma, multi_query=dict(num_key_value_heads=1, attention_bias=True, hidden_act="gelu")),
    *rows("gemma2", dict(kGemma, **kFour, sliding_window=4, query_pre_attn_scalar=7),
          no_caps=dict(attn_logit_softcapping=None, final_logit_softcapping=None, num_hidden_layers=2,
                       layer_types=["full_attention", "sliding_attention"])),
    *rows("gemma3_text", dict(kGemma, num_hidden_layers=6, sliding_window=4, query_pre_attn_scalar=7,
                              layer_types=["sliding_attention"] * 5 + ["full_attention"]),
          older_style=dict(num_hidden_layers=3, layer_types=None,
                           written=dict(rope_parameters=None, rope_theta=1000.0, rope_local_base_freq=100.0,
                                        sliding_window_pattern=2, layer_types=None,
                                        rope_scaling=dict(rope_type="linear", factor=8.0)),
                           sliding_window_pattern=2,
                           rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000.0),
                                                sliding_attention=dict(rope_type="default", rope_theta=100.0))),
          both_ways=dict(greedy=False, num_hidden_layers=2, use_bidirectional_attention=True, sliding_window=5,
                         layer_types=kLayers)),
    *rows("gemma4_text", kGemma4,
          shared_projection=dict(attention_k_eq_v=True, num_global_key_value_heads=1, final_logit_softcapping=3.0,
                                 use_bidirectional_attention="vision", layer_types=kLayers * 2, num_hidden_layers=4),
          older_style=dict(attention_k_eq_v=True, num_global_key_value_heads=4, rope_parameters=None, attention_bias=True,
                           global_head_dim=16, num_hidden_layers=2, layer_types=kLayers,
                           written=dict(per_layer_config=None, global_head_dim=16, num_global_key_value_heads=4,
                                        rope_parameters=None)),
          full=dict(layer_types=["full_attention"] * 2, num_hidden_layers=2, tie_word_embeddings=False,
                    rope_parameters=dict(full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, factor=3.0,
                                                             rope_theta=1000.0))),
          both_ways=dict(greedy=False, use_bidirectional_attention="all", sliding_window=5, num_hidden_layers=2,
                         layer_types=kLayers),
          layer_inputs=dict(num_hidden_layers=2, layer_types=kLayers, hidden_size_per_layer_input=5, vocab_size_per_layer_input=31),
          shared_keys=dict(num_hidden_layers=4, layer_types=kLayers * 2, num_kv_shared_layers=2, hidden_size_per_layer_input=3, attention_k_eq_v=True,
                           num_global_key_value_heads=1, attention_bias=True),
          e2b=dict(num_hidden_layers=5, layer_types=[*kLayers, *kLayers, "full_attention"], num_kv_shared_layers=3,
                   use_double_wide_mlp=True, hidden_size_per_layer_input=4, final_logit_softcapping=3.0),
          e2b_padded=dict(kPadded, num_hidden_layers=4, layer_types=kLayers * 2, num_kv_shared_layers=2, use_double_wide_mlp=True,
                          hidden_size_per_layer_input=4),
          padded=dict(kPadded, layer_types=kLayers),
          experts=dict(kGemma4Experts, num_hidden_layers=2, layer_types=kLayers),
          experts_shared_projection=dict(kGemma4Experts, num_experts=3, top_k_experts=3, moe_intermediate_size=15,
                                         attention_k_eq_v=True, num_global_key_value_heads=1, golden=False),
          experts_padded=dict(kPadded, **kGemma4Experts, layer_types=kLayers)),
    *rows("gemma4_unified_text", kGemma4Unified,
          shared_keys=dict(num_hidden_layers=4, layer_types=kLayers * 2, num_kv_shared_layers=2, use_double_wide_mlp=True),
          shared_projection=dict(attention_k_eq_v=True, num_global_key_value_heads=1, final_logit_softcapping=3.0)),
    *rows("olmo", kSixteen, clip=dict(clip_qkv=0.5, attention_bias=True, tie_word_embeddings=True)),
    *rows("olmo2", kSixteen, bias=dict(attention_bias=True, num_key_value_heads=4)),
    *rows("olmo3", dict(kSixteen, **kFour, sliding_window=4),
          yarn=dict(rope_parameters=dict(
              full_attention=dict(rope_type="yarn", rope_theta=5e5, factor=4.0, original_max_position_embeddings=8),
              sliding_attention=dict(rope_type="default", rope_theta=5e5)))),
    *rows("olmo_hybrid", kOlmoHybrid,
          nope=dict(rope_parameters=dict(rope_type="default", rope_theta=None), attention_bias=True, num_key_value_heads=4,
                    linear_allow_neg_eigval=False, linear_num_value_heads=2, linear_conv_kernel_dim=2, num_hidden_layers=2,
                    layer_types=["full_attention", "linear_attention"], rms_norm_eps=1e-3),
          defaults=dict(num_hidden_layers=5, layer_types=None, linear_num_key_heads=None, linear_num_value_heads=None,
                        linear_key_head_dim=None, linear_value_head_dim=None, tie_word_embeddings=True,
                        **rope("yarn", factor=4.0, original_max_position_embeddings=8)),
          long=dict(length=70, max_position_embeddings=96, layer_types=["linear_attention", "full_attention"],
                    num_hidden_layers=2, linear_num_key_heads=1),
          padded=dict(kPadded, layer_types=["linear_attention", "full_attention"])),
    *rows("stablelm", dict(kLlama, hidden_size=32, **rope(partial_rotary_factor=0.25)),
          parallel=dict(use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=True)),
    *rows("granite", dict(kSixteen, embedding_multiplier=3.0, logits_scaling=1.7, residual_multiplier=0.3,
                          attention_multiplier=0.11),
          biases=dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    *rows("vaultgemma", dict(kGemma, **kFour, sliding_window=4, query_pre_attn_scalar=7),
          uncapped=dict(num_hidden_layers=2, attn_logit_softcapping=None, final_logit_softcapping=None,
                        attention_bias=True, hidden_activation="gelu", tie_word_embeddings=False),
          padded=kPadded),
    *rows("cwm", dict(kLlama, **kFour, head_dim=8, sliding_window=4, **kLlama3),
          defaults=dict(sliding_window=3, mlp_bias=True, rope_parameters=None, tie_word_embeddings=True),
          layers=dict(num_hidden_layers=2, layer_types=kLayers),
          padded=dict(kPadded, layer_types=kLayers)),
    *rows("ministral3", dict(kLlama, head_dim=8, **kGrowth),
          window=dict(sliding_window=4, tie_word_embeddings=True),
          defaults=dict(rope_parameters=None, num_hidden_layers=1),
          padded=kPadded),
    *rows("nanochat", dict(kLlama, hidden_size=16),
          options=dict(attention_bias=True, final_logit_softcapping=None, hidden_act="silu", tie_word_embeddings=True,
                       num_key_value_heads=4),
          padded=kPadded),
    *rows("hunyuan_v1_dense", dict(kLlama, head_dim=8),
          alpha=dict(attention_bias=True, tie_word_embeddings=True,
                     **rope("dynamic", factor=1.0, alpha=50.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)),
          padded=kPadded),
    *rows("openai-gpt", dict(kGpt2),
          relu=dict(afn="relu", n_layer=1, tie_word_embeddings=False),
          swish=dict(afn="swish", n_layer=1, layer_norm_epsilon=1e-3),
          padded=kPaddedOne),
    *rows("ctrl", dict(kGpt2, dff=15), untied=dict(tie_word_embeddings=False, n_head=3, n_layer=1),
          padded=kPaddedOne),
    *rows("hyperclovax", dict(kLlama, head_dim=8, embedding_multiplier=3.0, logits_scaling=0.3, residual_multiplier=0.3),
          pre_norm=dict(use_post_norm=False, attention_multiplier=0.11, attention_bias=True, mlp_bias=True,
                        tie_word_embeddings=True)),
    *rows("cohere", dict(kSixteen, logit_scale=0.3), qk_norm=dict(use_qk_norm=True, attention_bias=True)),
    *rows("cohere2", dict(kSixteen, **kFour, sliding_window=4, logit_scale=0.3)),
    *rows("glm", dict(kLlama, head_dim=8), full=dict(rope(partial_rotary_factor=1.0), attention_bias=False)),
    *rows("glm4", dict(kLlama, head_dim=8), no_bias=dict(attention_bias=False, tie_word_embeddings=True)),
    *rows("smollm3", dict(kSixteen, **kFour),
          windows=dict(no_rope_layers=[1, 0, 0, 1], use_sliding_window=True, sliding_window=4, attention_bias=True,
                       mlp_bias=True, tie_word_embeddings=False)),
    *rows("nemotron", dict(kLlama, hidden_size=16, **rope(partial_rotary_factor=0.5)),
          biases=dict(attention_bias=True, mlp_bias=True, head_dim=8, tie_word_embeddings=True)),
    *rows("xglm", kXglm, pad=dict(pad_token_id=5, scale_embedding=False)),
    *rows("biogpt", dict(kPlain, layer_norm_eps=1e-12), unscaled=dict(scale_embedding=False, hidden_act="relu")),
    *rows("persimmon", dict(kPlain, hidden_size=16, **rope(partial_rotary_factor=0.5)), bare=dict(qk_layernorm=False)),
    *rows("apertus", dict(kSixteen, **kLlama3), bias=dict(attention_bias=True, tie_word_embeddings=True)),
    *rows("arcee", dict(kLlama, head_dim=8), biases=dict(attention_bias=True, mlp_bias=True)),
    *rows("ernie4_5", dict(kLlama, head_dim=8), biases=dict(use_bias=True, tie_word_embeddings=False)),
    *rows("helium", dict(kSixteen, head_dim=4)),
    *rows("exaone4", dict(kLlama, **kFour, head_dim=8, sliding_window=4, sliding_window_pattern=4),
          no_window=dict(sliding_window=None, num_hidden_layers=2, layer_types=["full_attention"] * 2)),
    *rows("bert", kBert,
          pretraining=dict(head="PreTraining", type_vocab_size=3, intermediate_size=12, vocab_size=12,
                           layer_norm_eps=1e-3),
          no_head=dict(head=None, num_attention_heads=2, num_hidden_layers=2),
          untied=dict(tie_word_embeddings=False, hidden_act="gelu_new", num_hidden_layers=1),
          relu=dict(hidden_act="relu", num_attention_heads=12, type_vocab_size=1),
          causal=dict(is_decoder=True, head="CausalLM", max_position_embeddings=32),
          older_style=dict(num_hidden_layers=1,
                           written=dict(position_embedding_type="absolute", directionality="bidi", dtype=None,
                                        pooler_num_attention_heads=12, pooler_type="first_token_transform",
                                        classifier_dropout=None, tie_word_embeddings=None, is_decoder=None))),
    *rows("roberta", kRoberta,
          no_head=dict(head=None, pad_token_id=0),
          types=dict(type_vocab_size=2, pad_token_id=2, hidden_act="relu", layer_norm_eps=1e-5),
          untied=dict(tie_word_embeddings=False, max_position_embeddings=13, num_hidden_layers=1)),
    *rows("megatron-bert", kBert,
          no_head=dict(head=None, type_vocab_size=3, num_hidden_layers=2),
          untied=dict(tie_word_embeddings=False, hidden_act="relu", num_hidden_layers=1, type_vocab_size=1),
          causal=dict(is_decoder=True, head="CausalLM", max_position_embeddings=32, num_hidden_layers=2),
          padded=kPaddedRight),
    *rows("modernbert", dict(kModernBert, head="MaskedLM"),
          no_head=dict(head=None, num_hidden_layers=2),
          biases=dict(attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True, norm_eps=1e-3,
                      hidden_activation="silu", classifier_activation="relu", tie_word_embeddings=False, **kFour,
                      local_attention=5, layer_types=["sliding_attention", "full_attention"] * 2),
          older_style=dict(num_hidden_layers=3, layer_types=None, rope_parameters=kModernBertRope,
                           global_attn_every_n_layers=2, decoder_bias=False, tie_word_embeddings=False,
                           written=dict(rope_parameters=None, layer_types=None, global_rope_theta=1000.0,
                                        local_rope_theta=100.0, global_attn_every_n_layers=2,
                                        position_embedding_type="absolute", reference_compile=False,
                                        repad_logits_with_grad=False, layer_norm_eps=1e-5)),
          padded=kPaddedRight),
    *rows("modernbert-decoder", dict(kModernBert),
          options=dict(attention_bias=True, norm_bias=True, classifier_bias=True, decoder_bias=False, local_attention=5,
                       tie_word_embeddings=False, **kFour),
          padded=kPadded),
    *rows("xlm-roberta", dict(kRoberta, layer_norm_eps=1e-5), no_head=dict(head=None, pad_token_id=3, type_vocab_size=2),
          padded=kPaddedRight),
    *rows("camembert", kRoberta, relu=dict(hidden_act="relu", tie_word_embeddings=False, num_hidden_layers=1)),
    *rows("data2vec-text", kRoberta, no_head=dict(head=None, type_vocab_size=3)),
    *rows("electra", dict(kBert, embedding_size=12),
          no_head=dict(head=None, type_vocab_size=1, hidden_act="relu"),
          untied=dict(tie_word_embeddings=False, hidden_act="gelu_new", num_hidden_layers=1),
          padded=kPaddedRight),
    *rows("roberta-prelayernorm", kRoberta,
          no_head=dict(head=None, type_vocab_size=2, hidden_act="relu"),
          untied=dict(tie_word_embeddings=False, pad_token_id=0, num_hidden_layers=1)),
    *rows("ernie", dict(kBert, hidden_act="relu"),
          tasks=dict(use_task_id=True, task_type_vocab_size=4, type_vocab_size=4, tie_word_embeddings=False)),
    *rows("distilbert", kDistilbert,
          no_head=dict(head=None, hidden_dim=12),
          sinusoidal=dict(sinusoidal_pos_embds=True, activation="relu", vocab_size=12),
          untied=dict(tie_word_embeddings=False, n_layers=1, n_heads=2)),
    *rows("seed_oss", dict(kLlama, head_dim=8),
          biases=dict(attention_bias=True, attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    *rows("mixtral", dict(kMoe, head_dim=6),
          window=dict(sliding_window=4, num_experts_per_tok=1, tie_word_embeddings=True),
          all=dict(num_experts_per_tok=5, hidden_act="gelu", intermediate_size=16)),
    *rows("qwen2_moe", dict(kQwenMoe, shared_expert_intermediate_size=9),
          renormalised=dict(norm_topk_prob=True, qkv_bias=False, num_experts_per_tok=3),
          dense=dict(num_hidden_layers=4, mlp_only_layers=[1], decoder_sparse_step=2, use_sliding_window=True,
                     sliding_window=4, max_window_layers=3),
          all=dict(num_experts=3, num_experts_per_tok=3, moe_intermediate_size=16, tie_word_embeddings=True)),
    *rows("qwen3_moe", dict(kMoe, head_dim=6, moe_intermediate_size=7),
          renormalised=dict(norm_topk_prob=True, attention_bias=True, use_sliding_window=True, sliding_window=4),
          dense=dict(num_hidden_layers=4, mlp_only_layers=[0], decoder_sparse_step=1, num_experts_per_tok=1),
          fp8=dict(stored="fp8_blocks", num_local_experts=3, length=5)),
    *rows("qwen3_next", kQwenNext,
          biases=dict(attention_bias=True, norm_topk_prob=False, linear_num_value_heads=2, linear_conv_kernel_dim=2,
                      layer_types=["full_attention", "linear_attention"], num_hidden_layers=2,
                      **rope(partial_rotary_factor=0.5)),
          dense=dict(mlp_only_layers=[0], decoder_sparse_step=1, layer_types=None, full_attention_interval=2,
                     num_hidden_layers=4, tie_word_embeddings=True),
          attention=dict(layer_types=["full_attention"], num_hidden_layers=1, hidden_act="gelu", linear_num_key_heads=3),
          long=dict(length=70, max_position_embeddings=96, layer_types=["linear_attention", "full_attention"],
                    num_hidden_layers=2, linear_num_key_heads=1),
          padded=dict(kPadded, layer_types=["linear_attention", "full_attention"])),
    *rows("olmoe", dict(kOlmoe, num_key_value_heads=4),
          renormalised=dict(norm_topk_prob=True, clip_qkv=0.7, attention_bias=True, num_key_value_heads=2)),
    *rows("gpt_oss", dict(kMoe, **kFour, head_dim=6, sliding_window=4, **kYarn),
          limits=dict(num_hidden_layers=2, swiglu_alpha=1.1, swiglu_limit=0.8, num_experts_per_tok=4,
                      attention_bias=False),
          full=dict(num_hidden_layers=2, layer_types=["full_attention"] * 2, num_experts_per_tok=1,
                    **rope("default"), tie_word_embeddings=True),
          mxfp4=dict(stored="mxfp4", num_hidden_layers=1, hidden_size=32, intermediate_size=32, head_dim=4,
                     num_attention_heads=2, num_key_value_heads=1, num_local_experts=3, length=5)),
    *rows("granitemoe", dict(kMoe, embedding_multiplier=3.0, logits_scaling=1.7, residual_multiplier=0.3,
                             attention_multiplier=0.11),
          biases=dict(attention_bias=True, num_experts_per_tok=5, tie_word_embeddings=True)),
    *rows("granitemoeshared", dict(kMoe, shared_intermediate_size=9, embedding_multiplier=3.0, logits_scaling=1.7,
                                   residual_multiplier=0.3, attention_multiplier=0.11),
          alone=dict(shared_intermediate_size=0, attention_bias=True, tie_word_embeddings=True, golden=False)),
    *rows("granitemoehybrid", dict(kHybrid, num_local_experts=0, position_embedding_type="rope"),
          experts=dict(num_local_experts=5, num_experts_per_tok=2, attention_bias=True, position_embedding_type=None,
                       written=dict(layer_types=["attention"] * 2, position_embedding_type="nope"))),
    *rows("flex_olmo", dict(kOlmoe, num_key_value_heads=4),
          renormalised=dict(norm_topk_prob=True, attention_bias=True, num_key_value_heads=2, num_experts_per_tok=3)),
    *rows("phimoe", dict(kMoe, router_jitter_noise=0.2, head_dim=6),
          biases=dict(attention_bias=True, lm_head_bias=True, router_jitter_noise=0.01, sliding_window=4),
          longrope=dict(**kPhiMoeRope, router_jitter_noise=0.5),
          longrope_beyond=dict(**kPhiMoeRope, router_jitter_noise=0.5, length=20)),
    *rows("deepseek_v2", kDeepseek2,
          plain_queries=dict(q_lora_rank=None, attention_bias=True, mlp_bias=True, first_k_dense_replace=0, v_head_dim=7,
                             topk_method="group_limited_greedy", n_group=3, topk_group=2, rms_norm_eps=1e-3),
          yarn=dict(**kMscale, attention_bias=True, v_head_dim=6, num_hidden_layers=3, n_shared_experts=1, length=20,
                    routed_scaling_factor=0.6),
          dense=dict(first_k_dense_replace=2, num_hidden_layers=2, tie_word_embeddings=True, rms_norm_eps=0.1),
          published=dict(q_lora_rank=None, **kMscale, length=20, written=dict(
              rope_parameters=None, rope_theta=100.0, **kOlderMscale, moe_layer_freq=1, scoring_func="softmax",
              aux_loss_alpha=0.001, seq_aux=True, ep_size=1, head_dim=None, qk_head_dim=None, dtype=None,
              torch_dtype="bfloat16"))),
    *rows("deepseek_v3", kDeepseek3,
          fp8=dict(stored="fp8_blocks", golden=False),
          plain_queries=dict(q_lora_rank=None, attention_bias=True, first_k_dense_replace=0, v_head_dim=7, n_group=1,
                             topk_group=1, norm_topk_prob=False, tie_word_embeddings=True),
          halves=dict(rope_interleave=False, v_head_dim=6, attention_bias=True, rms_norm_eps=1e-3,
                      n_shared_experts=2, num_experts_per_tok=4),
          yarn=dict(**kMscale, num_hidden_layers=3, length=20, first_k_dense_replace=2, v_head_dim=13),
          yarn_alike=dict(**rope("yarn", factor=4.0, rope_theta=100.0, original_max_position_embeddings=8, mscale=1.0,
                                 mscale_all_dim=1.0, beta_fast=32, beta_slow=1), length=20, num_attention_heads=3, num_key_value_heads=3),
          published=dict(**kMscale, length=20, written=dict(
              rope_parameters=None, rope_theta=100.0, **kOlderMscale, moe_layer_freq=1, scoring_func="sigmoid",
              topk_method="noaux_tc", ep_size=1, num_nextn_predict_layers=1, head_dim=None, qk_head_dim=None))),
    *rows("deepseek_v32", kDeepseek32,
          options=dict(attention_bias=True, v_head_dim=7, n_group=1, topk_group=1, norm_topk_prob=False, rms_norm_eps=1e-3,
                       index_topk=64, num_hidden_layers=3, mlp_layer_types=["sparse", "dense", "sparse"],
                       n_shared_experts=2, tie_word_embeddings=True),
          yarn=dict(**kMscale, length=20, first_k_dense_replace=2, num_hidden_layers=3, index_head_dim=4),
          published=dict(**kMscale, length=20, written=dict(
              rope_parameters=None, rope_theta=100.0, **kOlderMscale, moe_layer_freq=1, scoring_func="sigmoid",
              topk_method="noaux_tc", ep_size=1, num_nextn_predict_layers=1, head_dim=None, qk_head_dim=None,
              layer_types=None, mlp_layer_types=None)),
          padded=kPadded),
    *rows("glm4_moe", kGlm4Moe,
          qk_norm=dict(kOneGroup, use_qk_norm=True, attention_bias=True, n_shared_experts=2, rms_norm_eps=1e-3,
                       **rope(partial_rotary_factor=0.25), tie_word_embeddings=True),
          published=dict(length=5, golden=False,
                         written=dict(rope_parameters=None, rope_theta=10000.0, rope_scaling=None,
                                      partial_rotary_factor=0.5, num_nextn_predict_layers=1, num_mtp_layers=None)),
          padded=kPadded),
    *rows("glm_moe_dsa", dict(kDeepseek32, n_group=1, topk_group=1, **kFour,
                              indexer_types=["full", "shared", "shared", "full"]),
          groups=dict(attention_bias=True, n_group=3, topk_group=2, norm_topk_prob=False, num_hidden_layers=2,
                      indexer_types=None, length=5, golden=False,
                      written=dict(indexer_types=None, index_topk_freq=1, indexer_rope_interleave=True))),
    *rows("glm4_moe_lite", dict(kDeepseek3, n_group=1, topk_group=1),
          options=dict(q_lora_rank=None, attention_bias=True, n_group=3, topk_group=2, norm_topk_prob=False, v_head_dim=7,
                       rope_interleave=False, num_hidden_layers=3, mlp_layer_types=["sparse", "dense", "sparse"],
                       tie_word_embeddings=True),
          padded=kPadded),
    *rows("solar_open", {k: v for k, v in kGlm4Moe.items() if k not in ("intermediate_size", "first_k_dense_replace")},
          bias=dict(attention_bias=True, n_group=1, topk_group=1, norm_topk_prob=False, n_shared_experts=2, **kYarn,
                    tie_word_embeddings=True)),
    *rows("dots1", dict(kDots1, norm_topk_prob=True),
          windows=dict(kOneGroup, **kFour, sliding_window=4, max_window_layers=2, n_shared_experts=1),
          layer_types=dict(sliding_window=4, layer_types=kLayers, attention_bias=True, num_key_value_heads=1,
                           tie_word_embeddings=True,
                           written=dict(scoring_func="noaux_tc", topk_method="noaux_tc", moe_layer_freq=1, ep_size=1)),
          padded=kPadded),
    *rows("minimax_m2", kMinimaxM2,
          partial=dict(rope(partial_rotary_factor=0.5), head_dim=8, num_experts_per_tok=5, tie_word_embeddings=True),
          published=dict(rope(partial_rotary_factor=0.5), head_dim=8, num_local_experts=3, length=5, written=dict(
              rope_parameters=None, rope_theta=1000.0, rotary_dim=4, attn_type_list=[1, 1], qk_norm_type="per_layer",
              use_qk_norm=True, scoring_func="sigmoid", use_routing_bias=True, shared_intermediate_size=0,
              shared_moe_mode="sigmoid", use_mtp=True, num_mtp_modules=3, mtp_transformer_layers=1,
              layernorm_full_attention_beta=1.0)),
          padded=kPadded),
    *rows("hy_v3", dict(kMoeOf, num_experts=5, moe_intermediate_size=7, router_scaling_factor=1.7),
          biases=dict(attention_bias=True, mlp_bias=True, num_shared_experts=2, num_hidden_layers=3, num_experts_per_tok=4,
                      mlp_layer_types=["sparse", "dense", "sparse"], tie_word_embeddings=True),
          padded=kPadded),
    *rows("afmoe", dict(kMoeOf, **kFour, num_experts=5, moe_intermediate_size=7, sliding_window=4, route_scale=1.7,
                        mup_enabled=True),
          options=dict(attention_bias=True, num_hidden_layers=3, num_dense_layers=2, num_shared_experts=1, mup_enabled=False,
                       layer_types=kLayers + kLayers[:1], num_experts_per_tok=4, tie_word_embeddings=True),
          padded=kPadded),
    *rows("hunyuan_v1_moe", dict(kLlama, head_dim=6, num_experts=5, moe_topk=2),
          alpha=dict(rope("dynamic", factor=1.0, alpha=50.0), attention_bias=True, moe_topk=[3, 3], num_key_value_heads=4,
                     tie_word_embeddings=True),
          published=dict(num_experts=3, length=5, golden=False, written=dict(
              num_experts=3, moe_topk=[2, 2], moe_intermediate_size=[15, 15], num_shared_expert=[1, 1], use_qk_norm=True,
              use_mixed_mlp_moe=True, moe_layer_num_skipped=0, use_cla=False, moe_drop_tokens=False)),
          padded=kPadded),
    *rows("mellum", dict(kMoeOf, num_experts=5, moe_intermediate_size=7, layer_types=kLayers, sliding_window=4),
          yarn=dict(norm_topk_prob=False, attention_bias=True, num_hidden_layers=3, layer_types=kLayers + kLayers[:1],
                    mlp_layer_types=["sparse", "dense", "sparse"], tie_word_embeddings=True, rope_parameters=dict(
                        full_attention=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0,
                                            original_max_position_embeddings=8),
                        sliding_attention=dict(rope_type="default", rope_theta=100.0))),
          full=dict(layer_types=["full_attention"] * 2, length=5, golden=False),
          padded=kPadded),
    *rows("exaone_moe", dict(kExaoneMoe, **kFour, sliding_window_pattern=4),
          named=dict(kOneGroup, num_hidden_layers=3, layer_types=kLayers + kLayers[:1], num_shared_experts=2,
                     mlp_layer_types=["sparse", "dense", "sparse"], tie_word_embeddings=True),
          padded=kPadded),
    *rows("ernie4_5_moe", kErnieMoe,
          biases=dict(use_bias=True, tie_word_embeddings=False, moe_norm_min=0.9, moe_layer_start_index=0),
          layers=dict(num_hidden_layers=4, moe_layer_start_index=0, moe_layer_interval=2, moe_num_shared_experts=0,
                      moe_layer_end_index=2)),
    *rows("llama4_text", kLlama4,
          dense=dict(kLlama3, interleave_moe_layer_step=2, num_experts_per_tok=2, attention_bias=True, no_rope_layers=[0, 1, 1, 0],
                     tie_word_embeddings=True, num_key_value_heads=4),
          layers=dict(num_hidden_layers=3, moe_layers=[1], use_qk_norm=False, attn_temperature_tuning=False,
                      no_rope_layer_interval=2, attention_chunk_size=5, num_key_value_heads=1, num_experts_per_tok=3,
                      layer_types=["full_attention", "chunked_attention", "chunked_attention"]),
          padded=dict(num_hidden_layers=2, no_rope_layers=[1, 0], num_experts_per_tok=2, floor_scale=32, padded=3),
          unrotated=dict(num_hidden_layers=2, no_rope_layers=[0, 0], moe_layers=[], length=5, golden=False),
          rotated=dict(num_hidden_layers=2, no_rope_layers=[1, 1], hidden_act="gelu", **kYarn, golden=False),
          published=dict(num_hidden_layers=2, length=5, golden=False, **kLlama3, written=dict(
              rope_parameters=None, rope_theta=1000.0, no_rope_layers=[], layer_types=None, moe_layers=None, for_llm_compressor=False,
              rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                original_max_position_embeddings=16)))),
    *part("gemma3", "gemma3_text", dict(kGemma, sliding_window=4, query_pre_attn_scalar=7, layer_types=kLayers),
          dict(kSiglip, mm_tokens_per_image=4), long=dict(kFour, layer_types=kLayers * 2, final_logit_softcapping=3.0)),
    *part("gemma4", "gemma4_text", dict(kGemma4, final_logit_softcapping=3.0), kGemma4Others,
          shared=dict(attention_k_eq_v=True, num_global_key_value_heads=1),
          e4b=dict(num_hidden_layers=4, layer_types=kLayers * 2, num_kv_shared_layers=2, hidden_size_per_layer_input=4),
          experts=dict(kGemma4Experts, num_hidden_layers=2, layer_types=kLayers, golden=True)),
    *part("gemma4_unified", "gemma4_unified_text", dict(kGemma4Unified, final_logit_softcapping=3.0), kGemma4UnifiedOthers,
          shared=dict(attention_k_eq_v=True, num_global_key_value_heads=1)),
    *part("llama4", "llama4_text", dict(kLlama4, num_hidden_layers=2, no_rope_layers=[1, 0], interleave_moe_layer_step=2),
          kLlama4Vision, tied=dict(tie_word_embeddings=True)),
    *part("mistral3", "mistral", dict(kLlama, head_dim=8, sliding_window=None), dict(kPixtral, tie_word_embeddings=False),
          window=dict(sliding_window=4)),
    *part("mistral3", "ministral3", dict(kLlama, head_dim=8, **kGrowth), dict(kPixtral, tie_word_embeddings=False),
          tied=dict(rope_parameters=None, num_hidden_layers=1)),
    *part("qwen2_5_vl", "qwen2_5_vl_text", dict(kSixteen, **rope(mrope_section=[1, 1, 0])), kQwen25Eye,
          windows=dict(kFour, use_sliding_window=True, sliding_window=4, max_window_layers=2)),
    *part("qwen2_vl", "qwen2_vl_text", dict(kSixteen, **rope(mrope_section=[0, 1, 1])), kQwen2Eye, golden=False),
    *part("qwen3_5", "qwen3_5_text", dict(kQwen35, intermediate_size=15), kQwen35Vision,
          biases=dict(attention_bias=True, layer_types=None, full_attention_interval=2, num_hidden_layers=2,
                      linear_num_value_heads=2),
          padded=dict(kPadded, layer_types=["linear_attention", "full_attention"])),
    *part("qwen3_5_moe", "qwen3_5_moe_text",
          dict(kQwen35, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=7, shared_expert_intermediate_size=9),
          kQwen35Vision),
    *part("qwen3_vl", "qwen3_vl_text", dict(kSixteen, head_dim=8, **rope(mrope_section=[2, 1, 1], mrope_interleaved=True)),
          dict(kQwen3Eye, tie_word_embeddings=True), biases=dict(attention_bias=True, num_key_value_heads=1),
          yarn=rope("yarn", factor=4.0, original_max_position_embeddings=8, mrope_section=[2, 1, 1])),
    *part("qwen3_vl_moe", "qwen3_vl_moe_text",
          dict(kQwenMoe, head_dim=6, num_experts=3, **rope(mrope_section=[1, 1, 1])), kQwen3Eye,
          dense=dict(num_hidden_layers=4, mlp_only_layers=[1], decoder_sparse_step=2),
          equal_sizes=dict(moe_intermediate_size=8)),  # twice that is the model's width
    *part("paligemma", "gemma", dict(kGemma, num_key_value_heads=1), dict(kSiglip, projection_dim=12, hidden_size=12)),
    *part("paligemma", "gemma2", dict(kGemma, sliding_window=4, query_pre_attn_scalar=7),
          dict(kSiglip, projection_dim=12, hidden_size=12), golden=False),
    *part("llava", "llama", kSixteen, kClip, tied=dict(tie_word_embeddings=True)),
    *part("llava", "mistral", kSixteen, kClip, golden=False),
    *part("llava_next", "llama", kSixteen, kClip, golden=False),
    *part("llava_next", "qwen2", kSixteen, kClip, golden=False),
    *part("llava_onevision", "qwen2", kSixteen, kSiglip, golden=False),
    *part("aya_vision", "cohere2", dict(kLlama, hidden_size=16, sliding_window=4, layer_types=kLayers), kSiglip, golden=False),
    *part("internvl", "qwen2", kSixteen, dict(vision_config=dict(kTower, image_size=[4, 4], patch_size=[2, 2])), golden=False),
    *part("internvl", "qwen3", dict(kLlama, head_dim=8), dict(vision_config=dict(kTower, image_size=[4, 4], patch_size=[2, 2])),
          golden=False),
]
