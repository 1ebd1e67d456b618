#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/config_reader.h"
#include "hooked/core/model_config.h"

namespace hooked {

// The names of the fields of ModelConfig in native folders: TransformerLens's config fields, and the group
// `hooked`.

/// How a field is written in the file.
enum class NativeForm {
  plain,   ///< its value; in the group `hooked` only if it is not the default
  always,  ///< its value, also if it is the default
  own,     ///< in a TransformerLens form, which read_native_config and write_native_config handle themselves
};

struct NativeKey {
  std::string_view key;    ///< dotted path in the file
  std::string_view field;  ///< path as in visit_fields; empty: the key is about several fields
  NativeForm form = NativeForm::plain;
};

/// In the order in which files are written. A field that is not here is written plainly in the group `hooked`
/// under its own path.
inline constexpr NativeKey kNativeKeys[] = {
    {"model_type", ""},
    {"n_layers", "n_layers"},
    {"d_model", "d_model"},
    {"n_ctx", "n_ctx"},
    {"d_head", "d_head"},
    {"n_heads", "n_heads", NativeForm::own},
    {"n_key_value_heads", "n_kv_heads", NativeForm::own},
    {"d_mlp", "d_mlp", NativeForm::own},
    {"d_vocab", "d_vocab"},
    {"d_vocab_out", "unembedding.d_vocab", NativeForm::own},
    {"dtype", ""},
    {"normalization_type", "norm", NativeForm::own},
    {"normalization_type", "norm_folded", NativeForm::own},
    {"use_normalization_before_and_after", ""},
    {"final_rms", ""},
    {"eps", "eps"},
    {"post_embedding_ln", "post_embedding_norm"},
    {"parallel_attn_mlp", "layout", NativeForm::own},
    {"attn_only", ""},
    {"gated_mlp", "mlp", NativeForm::own},
    {"act_fn", "activation", NativeForm::own},
    {"act_fn", "mlp_norm", NativeForm::own},
    {"attention_dir", "direction"},
    {"use_attn_scale", ""},
    {"attn_scale", "attn_scale", NativeForm::own},
    {"scale_attn_by_inverse_layer_idx", "scale_by_inverse_layer"},
    {"attn_scores_soft_cap", "score_soft_cap", NativeForm::own},
    {"use_qk_norm", ""},
    {"use_local_attn", "window", NativeForm::own},
    {"num_experts", "experts.n_experts"},
    {"num_experts", "experts", NativeForm::own},
    {"experts_per_token", "experts.per_token"},
    {"norm_topk_prob", "experts.renormalised"},
    {"window_size", "window.size"},
    {"attn_types", "window.layers", NativeForm::own},
    {"positional_embedding_type", "positions", NativeForm::own},
    {"rotary_dim", "rotary.dim", NativeForm::own},
    {"rotary_base", "rotary.base"},
    {"rotary_base_local", "rotary.local_base", NativeForm::own},
    {"rotary_adjacent_pairs", "rotary.adjacent_pairs"},
    {"rotary_scaling_factor", "rotary.linear.factor"},
    {"use_NTK_by_parts_rope", ""},
    {"NTK_by_parts_factor", "rotary.llama3.factor"},
    {"NTK_by_parts_low_freq_factor", "rotary.llama3.low_freq_factor"},
    {"NTK_by_parts_high_freq_factor", "rotary.llama3.high_freq_factor"},
    {"NTK_original_ctx_len", "rotary.llama3.original_n_ctx"},
    {"use_yarn_rope", ""},
    {"yarn_factor", "rotary.yarn.factor"},
    {"yarn_attention_factor", "rotary.yarn.attention_factor"},
    {"yarn_beta_fast", "rotary.yarn.beta_fast"},
    {"yarn_beta_slow", "rotary.yarn.beta_slow"},
    {"yarn_original_max_position_embeddings", "rotary.yarn.original_n_ctx"},
    {"yarn_truncate", "rotary.yarn.truncate", NativeForm::own},
    {"relative_attention_num_buckets", "relative.buckets"},
    {"relative_attention_max_distance", "relative.max_distance"},
    {"decoder_start_token_id", "encoder.decoder_start_token"},
    {"output_logits_soft_cap", "unembedding.soft_cap", NativeForm::own},
    {"default_prepend_bos", "default_prepend_bos"},

    {"hooked.processing", "processing", NativeForm::always},
    {"hooked.dtype", "dtype", NativeForm::always},
    {"hooked.norm_place", "norm_place", NativeForm::always},
    {"hooked.norm_bias", "norm_bias", NativeForm::always},
    {"hooked.norm_offset", "norm_offset", NativeForm::always},
    {"hooked.final_norm", "final_norm", NativeForm::always},
    {"hooked.parallel_one_norm", ""},
    {"hooked.mlp_bias", "mlp_bias", NativeForm::always},
    {"hooked.qkv_bias", "qkv_bias", NativeForm::always},
    {"hooked.attn_out_bias", "attn_out_bias", NativeForm::always},
    {"hooked.unembed_bias", "unembedding.bias", NativeForm::always},
    {"hooked.gated_bias_after_product", "gated_bias_after_product", NativeForm::always},
    {"hooked.qk_norm", "qk_norm.span", NativeForm::own},
    {"hooked.tied_unembedding", "unembedding.tied", NativeForm::always},
    {"hooked.unembed_mean", "unembedding.keeps_mean"},
    {"hooked.qk_norm_kind", "qk_norm.kind"},
    {"hooked.qk_norm_bias", "qk_norm.bias"},
    {"hooked.qk_norm_after_rotary", "qk_norm.after_rotary"},
    {"hooked.qk_norm_layers", "qk_norm.layers"},
    {"hooked.window_kind", "window.kind"},
    {"hooked.swish_beta", "activation.beta", NativeForm::own},
    {"hooked.gate_limit", "gate_limit"},
    {"hooked.up_offset", "up_offset"},
    {"hooked.experts", ""},
    {"hooked.latent", "latent", NativeForm::own},
    {"hooked.short_conv", "short_conv", NativeForm::own},
    {"hooked.delta_net", "delta_net", NativeForm::own},
    {"hooked.gated_heads", "gated_heads"},
    {"hooked.rotary_at_end", "rotary.at_end"},
    {"hooked.attention_sinks", "attention_sinks"},
    {"hooked.qkv_clip", "qkv_clip"},
    {"hooked.alibi_slopes", "alibi.slopes"},
    {"hooked.alibi_in_bfloat16", "alibi.in_bfloat16"},
    {"hooked.alibi_scaled", "alibi.scaled"},
    {"hooked.n_encoder_layers", "encoder.n_layers"},
    {"hooked.unrotated_layers", "rotary.unrotated_layers"},
    {"hooked.embedding_sum_norm", "embedding_sum_norm"},
    {"hooked.token_types", "token_types"},
    {"hooked.mlm_head", "unembedding.mlm_head"},
    {"hooked.mlm_head_swish_beta", "unembedding.mlm_head.beta", NativeForm::own},
    {"hooked.embedding_scale", "embedding_scale"},
    {"hooked.unembed_in_scale", "unembedding.in_scale"},
    {"hooked.logit_scale", "unembedding.scale"},
    {"hooked.dynamic_rope.factor", "rotary.dynamic.factor"},
    {"hooked.dynamic_rope.original_n_ctx", "rotary.dynamic.original_n_ctx"},
    {"hooked.longrope.short_factors", "rotary.longrope.short_factors"},
    {"hooked.longrope.long_factors", "rotary.longrope.long_factors"},
    {"hooked.longrope.original_n_ctx", "rotary.longrope.original_n_ctx"},
    {"hooked.longrope.attention_factor", "rotary.longrope.attention_factor"},
    {"hooked.longrope.long_attention_factor", "rotary.longrope.long_attention_factor"},
    {"hooked.scale_windowed_rope", ""},
};

inline constexpr std::string_view kHookedGroup = "hooked.";

/// Where and how a field is written in the file.
struct NativePlace {
  std::string key;
  NativeForm form = NativeForm::plain;
};

inline NativePlace native_place(std::string_view field) {
  for (const NativeKey& row : kNativeKeys) {
    if (row.field == field) return {std::string(row.key), row.form};
  }
  return {std::string(kHookedGroup).append(field)};
}

/// TransformerLens's word for a kind of norm and whether its weights are folded; no norm is null.
struct NormalizationType {
  std::string_view text;
  NormKind norm;
  bool folded;
};
inline constexpr NormalizationType kNormalizationTypes[] = {{"LN", NormKind::layer_norm, false},
                                                            {"LNPre", NormKind::layer_norm, true},
                                                            {"RMS", NormKind::rms_norm, false},
                                                            {"RMSPre", NormKind::rms_norm, true}};

inline constexpr std::string_view kNativeModelType = "hooked_transformer";
inline constexpr double kSoftCapOff = -1.0;  // TransformerLens's value for "no cap"; anything up to 0 is off

/// A config file of the native dialect: TransformerLens's fields, and the group for what they cannot express.
struct NativeSource {
  ConfigReader top;
  ConfigReader hooked;

  /// Whether the file names one of these architectures. Their names change parts of a block in
  /// TransformerLens without any config field.
  bool names(std::initializer_list<std::string_view> architectures) const {
    return std::ranges::find(architectures, top.text_or("original_architecture", "")) != architectures.end();
  }
  bool gpt_oss() const { return names({"GptOssForCausalLM"}); }
};

/// Reads which positions a model has, with the scaling of rotary ones. Uses sizes, heads and windows of
/// `config`.
void read_native_positions(const NativeSource& in, ModelConfig& config);

}  // namespace hooked
