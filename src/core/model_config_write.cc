#include <utility>

#include "core/json.h"
#include "core/model_config_tables.h"
#include "hooked/core/model_config.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

std::string_view normalization_type(const ModelConfig& c) {
  for (const auto& type : kNormalizationTypes) {
    if (type.norm == c.norm && type.folded == c.norm_folded) return type.text;
  }
  return {};
}

double written_cap(double cap) { return cap > 0 ? cap : kSoftCapOff; }

Json json_of(std::string_view text) { return text.empty() ? Json() : Json(std::string(text)); }

// The scaling's own fields, and whether windowed layers take it (only where a layer is windowed).
void add_rope_scaling(const ModelConfig& c, Json& json, Json& hooked) {
  using Kind = RopeScalingKind;
  const auto& scaling = c.rotary.scaling;
  switch (scaling.kind) {
    case Kind::none:
      break;
    case Kind::linear:
      json["rotary_scaling_factor"] = scaling.factor;
      break;
    case Kind::llama3:
      json["use_NTK_by_parts_rope"] = true;
      json["NTK_by_parts_factor"] = scaling.factor;
      json["NTK_by_parts_low_freq_factor"] = scaling.low_freq_factor;
      json["NTK_by_parts_high_freq_factor"] = scaling.high_freq_factor;
      json["NTK_original_ctx_len"] = scaling.original_n_ctx;
      break;
    case Kind::yarn:
      json["use_yarn_rope"] = true;
      json["yarn_factor"] = scaling.factor;
      json["yarn_attention_factor"] = scaling.attention_factor;
      json["yarn_beta_fast"] = scaling.beta_fast;
      json["yarn_beta_slow"] = scaling.beta_slow;
      json["yarn_original_max_position_embeddings"] = scaling.original_n_ctx;
      json["yarn_truncate"] = scaling.truncate;
      break;
    case Kind::dynamic:
      hooked["dynamic_rope"] = {{"factor", scaling.factor}, {"original_n_ctx", scaling.original_n_ctx}};
      break;
    case Kind::longrope:
      hooked["longrope"] = {{"short_factors", scaling.short_factors},
                            {"long_factors", scaling.long_factors},
                            {"original_n_ctx", scaling.original_n_ctx},
                            {"attention_factor", scaling.attention_factor}};
      if (scaling.long_attention_factor) {
        hooked["longrope"]["long_attention_factor"] = *scaling.long_attention_factor;
      }
      break;
  }
  if (scaling.kind != Kind::none && !c.windowed_layers.empty()) {
    hooked["scale_windowed_rope"] = !c.rotary.local_base.has_value();
  }
}

// What TransformerLens's num_experts, experts_per_token and norm_topk_prob do not say.
Json expert_group(const ExpertConfig& e) {
  Json group = {{"d_expert", e.d_expert},
                {"bias", e.bias},
                {"router", json_of(word_of(kRouterKindWords, e.router))},
                {"router_bias", e.router_bias},
                {"choice_bias", e.choice_bias},
                {"n_groups", e.n_groups},
                {"groups_per_token", e.groups_per_token},
                {"group_score", json_of(word_of(kGroupScoreWords, e.group_score))},
                {"least_sum", e.least_sum},
                {"mixer_tolerance", e.mixer_tolerance},
                {"d_shared", e.d_shared},
                {"shared_gate", e.shared_gate},
                {"shared_gate_bias", e.shared_gate_bias}};
  if (!e.dense_layers.empty()) group["dense_layers"] = e.dense_layers;
  return group;
}

Json hooked_group(const ModelConfig& c) {
  Json hooked = {{"processing", c.processing},
                 {"dtype", std::string(dtype_text(c.dtype))},
                 {"norm_place", json_of(word_of(kNormPlaceWords, c.norm_place))},
                 {"norm_bias", c.norm_bias},
                 {"norm_offset", c.norm_offset},
                 {"final_norm", json_of(word_of(kNormKindWords, c.final_norm))},
                 {"parallel_one_norm", c.layout == BlockLayout::parallel_one_norm},
                 {"mlp_bias", c.mlp_bias},
                 {"qkv_bias", c.qkv_bias},
                 {"attn_out_bias", c.attn_out_bias},
                 {"unembed_bias", c.unembed_bias},
                 {"gated_bias_after_product", c.gated_bias_after_product},
                 {"qk_norm", json_of(word_of(kQkNormWords, c.qk_norm))},
                 {"tied_unembedding", c.tied_unembedding}};
  if (c.qk_norm != QkNorm::none) {
    hooked["qk_norm_kind"] = json_of(word_of(kNormKindWords, c.qk_norm_kind));
    hooked["qk_norm_bias"] = c.qk_norm_bias;
  }
  if (c.activation == Activation::swish) hooked["swish_beta"] = c.swish_beta;
  if (c.gate_limit > 0) hooked["gate_limit"] = c.gate_limit;
  if (c.up_offset) hooked["up_offset"] = true;
  if (c.experts.n_experts > 0) hooked["experts"] = expert_group(c.experts);
  if (c.latent_attention()) {
    hooked["latent"] = {{"d_kv", c.latent.d_kv},
                        {"d_query", c.latent.d_query},
                        {"d_shared_key", c.latent.d_shared_key},
                        {"d_value", c.latent.d_value},
                        {"eps", c.latent.eps}};
  }
  if (c.rotary.at_end) hooked["rotary_at_end"] = true;
  if (c.attention_sinks) hooked["attention_sinks"] = true;
  if (c.qkv_clip > 0) hooked["qkv_clip"] = c.qkv_clip;
  if (c.positions == PositionKind::alibi) {
    hooked["alibi_slopes"] = c.alibi_slopes;
    hooked["alibi_in_bfloat16"] = c.alibi_in_bfloat16;
    hooked["alibi_scaled"] = c.alibi_scaled;
  }
  if (c.has_encoder()) hooked["n_encoder_layers"] = c.n_encoder_layers;
  if (!c.unrotated_layers.empty()) hooked["unrotated_layers"] = c.unrotated_layers;
  if (c.embedding_sum_norm) hooked["embedding_sum_norm"] = true;
  if (c.token_types > 0) hooked["token_types"] = c.token_types;
  if (c.mlm_head) hooked["mlm_head"] = std::string(activation_name(*c.mlm_head));
  if (c.embedding_scale != 1.0) hooked["embedding_scale"] = c.embedding_scale;
  if (c.unembed_in_scale != 1.0) hooked["unembed_in_scale"] = c.unembed_in_scale;
  if (c.logit_scale != 1.0) hooked["logit_scale"] = c.logit_scale;
  return hooked;
}

}  // namespace

std::string ModelConfig::to_json() const {
  validate();
  Json json = {{"model_type", std::string(kModelType)},
               {"n_layers", n_layers},
               {"d_model", d_model},
               {"n_ctx", n_ctx},
               {"d_head", d_head},
               {"n_heads", n_heads},
               {"n_key_value_heads", grouped_query() ? Json(n_kv_heads) : Json()},
               {"d_mlp", has_mlp() ? Json(d_mlp) : Json()},
               {"d_vocab", d_vocab},
               {"d_vocab_out", d_vocab_out},
               {"dtype", std::string(dtype_text(dtype))},
               {"normalization_type", json_of(normalization_type(*this))},
               {"use_normalization_before_and_after", norm_place == NormPlace::both},
               {"final_rms", norm == NormKind::layer_norm && final_norm == NormKind::rms_norm},
               {"eps", eps},
               {"post_embedding_ln", post_embedding_norm},
               {"parallel_attn_mlp", parallel()},
               {"attn_only", !has_mlp()},
               {"gated_mlp", mlp == MlpKind::gated},
               {"act_fn", mlp_norm ? "solu_ln" : std::string(activation_name(activation))},
               {"attention_dir", json_of(word_of(kAttentionDirectionWords, direction))},
               {"use_attn_scale", true},
               {"attn_scale", attn_scale},
               {"scale_attn_by_inverse_layer_idx", scale_by_inverse_layer},
               {"attn_scores_soft_cap", written_cap(score_soft_cap)},
               {"use_qk_norm", qk_norm != QkNorm::none},
               {"use_local_attn", !windowed_layers.empty()}};
  if (experts.n_experts > 0) {
    json["num_experts"] = experts.n_experts;
    json["experts_per_token"] = experts.per_token;
    json["norm_topk_prob"] = experts.renormalised;
  }
  if (!windowed_layers.empty()) {
    json["window_size"] = window;
    for (const bool local : windowed_layers) json["attn_types"].push_back(local ? "local" : "global");
  }
  json["positional_embedding_type"] = json_of(word_of(kPositionKindWords, positions));
  auto hooked = hooked_group(*this);
  if (positions == PositionKind::rotary) {
    json["rotary_dim"] = rotary.dim > 0 ? Json(rotary.dim) : Json();
    json["rotary_base"] = rotary.base;
    json["rotary_base_local"] = rotary.local_base ? Json(*rotary.local_base) : Json();
    json["rotary_adjacent_pairs"] = rotary.adjacent_pairs;
    add_rope_scaling(*this, json, hooked);
  }
  if (positions == PositionKind::relative) {
    json["relative_attention_num_buckets"] = relative.buckets;
    json["relative_attention_max_distance"] = relative.max_distance;
  }
  if (decoder_start_token) json["decoder_start_token_id"] = *decoder_start_token;
  json["output_logits_soft_cap"] = written_cap(logit_soft_cap);
  json["default_prepend_bos"] = default_prepend_bos;
  json["hooked"] = std::move(hooked);
  return json.dump(2) + "\n";
}

}  // namespace hooked
