#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/json.h"
#include "core/model_config_tables.h"
#include "hooked/core/config_reader.h"
#include "hooked/core/error.h"
#include "hooked/core/model_config.h"
#include "hooked/core/tensor_text.h"

// Note [Native config]
// The JSON form is TransformerLens's own config fields. What those cannot say stands in the group `hooked`;
// there a field that is absent follows from TransformerLens's fields, so that its dumps load as they are.
// Every key of the group changes what the model computes, so an unknown one is refused; elsewhere unknown
// keys are only reported.

namespace hooked {
namespace {

constexpr double kAttnScaleUnset = -1.0;
constexpr std::int64_t kSizeUnset = -1;

struct Source {
  ConfigReader top;
  ConfigReader hooked;
};

template <class E, std::size_t N>
E word_or(const ConfigReader& reader, std::string_view key, const Word<E> (&words)[N], E fallback) {
  if (!reader.has(key)) return fallback;
  const auto value = value_of(words, reader.text(key));
  if (!value) reader.refuse(key, fmt::format("is not supported; expected one of {}", all_words(words)));
  return *value;
}

/// Which parts of a block an architecture's name changes in TransformerLens, where no config field says so.
bool named(const ConfigReader& top, std::initializer_list<std::string_view> architectures) {
  const auto name = top.text_or("original_architecture", "");
  for (const auto architecture : architectures) {
    if (name == architecture) return true;
  }
  return false;
}

// Features that change the function and that the graph does not have: set means refused.
void refuse_unsupported(const ConfigReader& top) {
  for (const auto key : {"quantization_method", "quantization_config", "clip_qkv"}) {
    if (top.has(key)) top.refuse(key, "is not supported; expected null, or no such field");
  }
  for (const auto key : {"load_in_4bit", "use_attention_sinks", "use_logn_attn", "use_dynamic_ntk_rope"}) {
    if (top.boolean_or(key, false)) top.refuse(key, "is not supported; expected false, or no such field");
  }
}

// Fields of TransformerLens about running, training and tokenizing, which say nothing about the function.
void ignore_runtime_fields(const ConfigReader& top) {
  top.ignore({"device",
              "n_devices",
              "seed",
              "init_mode",
              "init_weights",
              "initializer_range",
              "n_params",
              "use_attn_result",
              "use_split_qkv_input",
              "use_hook_mlp_in",
              "use_attn_in",
              "use_hook_tokens",
              "ungroup_grouped_query_attention",
              "model_name",
              "tokenizer_name",
              "tokenizer_prepends_bos",
              "from_checkpoint",
              "checkpoint_index",
              "checkpoint_label_type",
              "checkpoint_value",
              "trust_remote_code",
              "uses_rms_norm",
              "layer_norm_folding",
              "relative_attention_max_distance",  // read where positions are relative
              "relative_attention_num_buckets",
              "decoder_start_token_id",  // read where there is an encoder
              "tie_word_embeddings",
              "train_seq_length"});
}

ModelConfig with_sizes(ModelConfig c, const Source& in) {
  c.n_layers = in.top.integer("n_layers");
  c.n_encoder_layers = in.hooked.integer_or("n_encoder_layers", 0);
  c.d_model = in.top.integer("d_model");
  c.n_ctx = in.top.integer("n_ctx");
  c.d_head = in.top.integer("d_head");
  c.n_heads = in.top.integer_or("n_heads", kSizeUnset);
  if (c.n_heads == kSizeUnset && c.d_head > 0) {
    if (c.d_model % c.d_head != 0) {
      in.top.refuse("n_heads",
                    fmt::format("means d_model / d_head; expected d_head to divide d_model, got {} and {}",
                                c.d_head, c.d_model));
    }
    c.n_heads = c.d_model / c.d_head;
  }
  c.n_kv_heads = in.top.integer_or("n_key_value_heads", c.n_heads);
  c.d_vocab = in.top.integer("d_vocab");
  if (c.d_vocab == kSizeUnset)
    in.top.refuse("d_vocab", "means the tokenizer's size; expected the number itself");
  c.d_vocab_out = in.top.integer_or("d_vocab_out", kSizeUnset);
  if (c.d_vocab_out == kSizeUnset) c.d_vocab_out = c.d_vocab;
  return c;
}

ModelConfig with_norms(ModelConfig c, const Source& in) {
  c.norm = NormKind::none;
  if (!in.top.is_null("normalization_type")) {
    const auto text = in.top.text_or("normalization_type", "LN");
    for (const auto& type : kNormalizationTypes) {
      if (type.text != text) continue;
      c.norm = type.norm;
      c.norm_folded = type.folded;
    }
    if (c.norm == NormKind::none) {
      in.top.refuse("normalization_type", "is not supported; expected LN, LNPre, RMS, RMSPre or null");
    }
  }
  const bool both = in.top.boolean_or("use_normalization_before_and_after", false);
  const bool output = named(in.top, {"Olmo2ForCausalLM", "Olmo3ForCausalLM"});
  c.norm_place = word_or(in.hooked, "norm_place", kNormPlaceWords,
                         both ? NormPlace::both : (output ? NormPlace::output : NormPlace::pre));
  if (both && c.norm_place != NormPlace::both) {
    in.hooked.refuse("norm_place", "contradicts use_normalization_before_and_after = true; expected both");
  }
  const bool final_rms = in.top.boolean_or("final_rms", false);
  c.final_norm = final_rms && c.norm == NormKind::layer_norm ? NormKind::rms_norm : c.norm;
  if (c.norm_place == NormPlace::post || !c.has_unembedding()) c.final_norm = NormKind::none;
  c.final_norm = word_or(in.hooked, "final_norm", kNormKindWords, c.final_norm);
  c.norm_bias = in.hooked.boolean_or("norm_bias", true);
  c.norm_offset = in.hooked.boolean_or("norm_offset", false);
  c.post_embedding_norm = in.top.boolean_or("post_embedding_ln", false);
  c.embedding_sum_norm = in.hooked.boolean_or("embedding_sum_norm", false);
  c.eps = in.top.number_or("eps", 1e-5);
  return c;
}

ModelConfig with_experts(ModelConfig c, const Source& in) {
  const auto group = in.hooked.object_if("experts");
  if (!in.top.has("num_experts") && !in.top.has("experts_per_token")) {
    if (group) in.hooked.refuse("experts", "needs num_experts and experts_per_token; got neither");
    in.top.ignore({"norm_topk_prob"});
    return c;
  }
  ExpertConfig& e = c.experts;
  e.n_experts = in.top.integer("num_experts");
  if (e.n_experts < 1) in.top.refuse("num_experts", "is out of range; expected at least 1, or null for none");
  e.per_token = in.top.integer("experts_per_token");
  e.renormalised = in.top.boolean_or("norm_topk_prob", false);
  const ConfigReader none("{}", "experts");
  const ConfigReader& reader = group ? *group : none;
  e.d_expert = reader.integer_or("d_expert", c.d_mlp);
  // TransformerLens knows this mixture by its architecture's name alone.
  const bool gpt_oss = named(in.top, {"GptOssForCausalLM"});
  e.bias = reader.boolean_or("bias", gpt_oss);
  if (reader.has("dense_layers")) e.dense_layers = reader.booleans("dense_layers");
  e.router = word_or(reader, "router", kRouterKindWords,
                     gpt_oss ? RouterKind::choose_then_softmax : RouterKind::softmax_then_choose);
  e.router_bias = reader.boolean_or("router_bias", gpt_oss);
  e.choice_bias = reader.boolean_or("choice_bias", false);
  e.n_groups = reader.integer_or("n_groups", 1);
  e.groups_per_token = reader.integer_or("groups_per_token", 1);
  e.group_score = word_or(reader, "group_score", kGroupScoreWords, GroupScore::best);
  e.least_sum = reader.number_or("least_sum", 0.0);
  e.mixer_tolerance = reader.number_or("mixer_tolerance", 0.0);
  e.d_shared = reader.integer_or("d_shared", 0);
  e.shared_gate = reader.boolean_or("shared_gate", false);
  e.shared_gate_bias = reader.boolean_or("shared_gate_bias", false);
  reader.refuse_unread();
  return c;
}

ModelConfig with_blocks(ModelConfig c, const Source& in) {
  const bool parallel = in.top.boolean_or("parallel_attn_mlp", false);
  const bool one_norm = in.hooked.boolean_or("parallel_one_norm", false);
  if (one_norm && !parallel)
    in.hooked.refuse("parallel_one_norm", "needs parallel_attn_mlp = true; got false");
  c.layout = !parallel  ? BlockLayout::serial
             : one_norm ? BlockLayout::parallel_one_norm
                        : BlockLayout::parallel_two_norms;

  const bool gated = in.top.boolean_or("gated_mlp", false);
  const bool attn_only = in.top.boolean_or("attn_only", false);
  c.mlp = attn_only ? MlpKind::none : gated ? MlpKind::gated : MlpKind::plain;
  // TransformerLens fills in a width for attention-only models as well.
  const auto default_width = c.d_model <= kMaxWidth ? 4 * c.d_model : 0;
  const auto d_mlp = in.top.integer_or("d_mlp", default_width);
  c.d_mlp = attn_only ? 0 : d_mlp;

  const auto name = in.top.text_or("act_fn", "relu");
  const bool solu_ln = name == "solu_ln";
  const auto activation = solu_ln ? Activation::solu : parse_activation(name);
  if (!activation) {
    in.top.refuse("act_fn",
                  fmt::format("is not supported; expected one of {}, solu_ln", all_words(kActivationWords)));
  }
  c.activation = *activation;
  c.mlp_norm = solu_ln && !attn_only;
  c.mlp_bias = in.hooked.boolean_or("mlp_bias", true);
  const bool gpt_oss = named(in.top, {"GptOssForCausalLM"});
  if (gpt_oss) c.activation = Activation::swish;
  c.swish_beta = in.hooked.number_or("swish_beta", gpt_oss ? 1.702 : 1.0);
  c.gate_limit = in.hooked.number_or("gate_limit", gpt_oss ? 7.0 : 0.0);
  c.up_offset = in.hooked.boolean_or("up_offset", gpt_oss);
  c = with_experts(std::move(c), in);
  // TransformerLens's experts have no such bias.
  c.gated_bias_after_product =
      in.hooked.boolean_or("gated_bias_after_product", c.mlp == MlpKind::gated && c.experts.n_experts == 0);
  return c;
}

ModelConfig with_windows(ModelConfig c, const Source& in) {
  if (!in.top.boolean_or("use_local_attn", false)) {
    in.top.ignore({"window_size", "attn_types"});
    return c;
  }
  for (const auto& type : in.top.texts("attn_types")) {
    if (type != "global" && type != "local")
      in.top.refuse("attn_types", "is not supported; expected global and local");
    c.windowed_layers.push_back(type == "local");
  }
  c.window = in.top.integer("window_size");
  for (const bool layer : c.windowed_layers) {
    if (layer) return c;
  }
  // No layer is local: the window is never used.
  c.windowed_layers.clear();
  c.window = 0;
  return c;
}

LatentConfig read_latents(const ModelConfig& c, const Source& in) {
  const auto group = in.hooked.object_if("latent");
  if (!group) return {};
  LatentConfig latent;
  latent.d_kv = group->integer("d_kv");
  if (latent.d_kv < 1) group->refuse("d_kv", "is out of range; expected at least 1, or no group latent");
  latent.d_query = group->integer_or("d_query", 0);
  latent.d_shared_key = group->integer_or("d_shared_key", 0);
  latent.d_value = group->integer_or("d_value", c.d_head);
  latent.eps = group->number_or("eps", latent.eps);
  group->refuse_unread();
  return latent;
}

ModelConfig with_attention(ModelConfig c, const Source& in) {
  c.direction = word_or(in.top, "attention_dir", kAttentionDirectionWords, AttentionDirection::causal);
  const bool scaled = in.top.boolean_or("use_attn_scale", true);
  const auto scale = in.top.number_or("attn_scale", kAttnScaleUnset);
  const auto usual = std::sqrt(static_cast<double>(c.d_head));
  c.attn_scale = !scaled ? 1.0 : scale == kAttnScaleUnset && c.d_head > 0 ? usual : scale;
  c.scale_by_inverse_layer = in.top.boolean_or("scale_attn_by_inverse_layer_idx", false);
  c.score_soft_cap = std::max(0.0, in.top.number_or("attn_scores_soft_cap", kSoftCapOff));
  const bool qk_norm = in.top.boolean_or("use_qk_norm", false);
  const bool whole = named(in.top, {"Olmo2ForCausalLM", "Olmo3ForCausalLM", "OlmoeForCausalLM"});
  c.qk_norm = word_or(in.hooked, "qk_norm", kQkNormWords,
                      qk_norm ? QkNorm::per_head : (whole ? QkNorm::whole_projection : QkNorm::none));
  c.qk_norm_kind = word_or(in.hooked, "qk_norm_kind", kNormKindWords, NormKind::rms_norm);
  c.qk_norm_bias = in.hooked.boolean_or("qk_norm_bias", false);
  c.attention_sinks = in.hooked.boolean_or("attention_sinks", false);
  c.latent = read_latents(c, in);
  c.qkv_clip = in.hooked.number_or("qkv_clip", 0.0);
  c.qkv_bias = in.hooked.boolean_or("qkv_bias", true);
  c.attn_out_bias = in.hooked.boolean_or("attn_out_bias", true);
  return with_windows(std::move(c), in);
}

RopeScaling read_rope_scaling(const Source& in) {
  using Kind = RopeScalingKind;
  const auto& top = in.top;
  const bool llama3 = top.boolean_or("use_NTK_by_parts_rope", false);
  const bool yarn = top.boolean_or("use_yarn_rope", false);
  const auto linear = top.number_or("rotary_scaling_factor", 1.0);
  const auto dynamic = in.hooked.object_if("dynamic_rope");
  const auto longrope = in.hooked.object_if("longrope");
  if (llama3 + yarn + (linear != 1.0) + dynamic.has_value() + longrope.has_value() > 1) {
    top.refuse(yarn     ? "use_yarn_rope"
               : llama3 ? "use_NTK_by_parts_rope"
                        : "rotary_scaling_factor",
               "stands beside another rotary scaling; expected only one of use_NTK_by_parts_rope, "
               "use_yarn_rope, rotary_scaling_factor, hooked.dynamic_rope and hooked.longrope");
  }
  RopeScaling scaling;
  if (llama3) {
    scaling.kind = Kind::llama3;
    scaling.factor = top.number_or("NTK_by_parts_factor", 8.0);
    scaling.low_freq_factor = top.number_or("NTK_by_parts_low_freq_factor", 1.0);
    scaling.high_freq_factor = top.number_or("NTK_by_parts_high_freq_factor", 4.0);
    scaling.original_n_ctx = top.number_or("NTK_original_ctx_len", 8192.0);
  } else if (yarn) {
    scaling.kind = Kind::yarn;
    scaling.factor = top.number_or("yarn_factor", 1.0);
    scaling.attention_factor = top.number_or("yarn_attention_factor", 1.0);
    scaling.beta_fast = top.number_or("yarn_beta_fast", 32.0);
    scaling.beta_slow = top.number_or("yarn_beta_slow", 1.0);
    scaling.original_n_ctx = top.number_or("yarn_original_max_position_embeddings", 4096.0);
    scaling.truncate = in.hooked.boolean_or("yarn_truncate", top.boolean_or("yarn_truncate", true));
  } else if (linear != 1.0) {
    scaling.kind = Kind::linear;
    scaling.factor = linear;
  } else if (dynamic) {
    scaling.kind = Kind::dynamic;
    scaling.factor = dynamic->number("factor");
    scaling.original_n_ctx = dynamic->number("original_n_ctx");
  } else if (longrope) {
    scaling.kind = Kind::longrope;
    scaling.short_factors = longrope->numbers("short_factors");
    scaling.long_factors = longrope->numbers("long_factors");
    scaling.original_n_ctx = longrope->number("original_n_ctx");
    scaling.attention_factor = longrope->number_or("attention_factor", 1.0);
    if (longrope->has("long_attention_factor")) {
      scaling.long_attention_factor = longrope->number("long_attention_factor");
    }
  }
  top.ignore({"NTK_by_parts_factor", "NTK_by_parts_low_freq_factor", "NTK_by_parts_high_freq_factor",
              "NTK_original_ctx_len", "yarn_factor", "yarn_attention_factor", "yarn_beta_fast",
              "yarn_beta_slow", "yarn_original_max_position_embeddings", "yarn_truncate"});
  in.hooked.ignore({"yarn_truncate"});
  return scaling;
}

// The base on windowed layers. TransformerLens scales those under llama3 and plain yarn, and not under linear
// scaling; in ModelConfig they are scaled exactly if they have no base of their own.
std::optional<double> read_local_base(const ModelConfig& c, const Source& in) {
  using Kind = RopeScalingKind;
  const auto kind = c.rotary.scaling.kind;
  const bool global_only = in.top.boolean_or("yarn_global_attn_only", false);
  const bool scaled = in.hooked.boolean_or("scale_windowed_rope",
                                           kind == Kind::llama3 || (kind == Kind::yarn && !global_only));
  std::optional<double> base;
  if (in.top.has("rotary_base_local")) base = in.top.number("rotary_base_local");
  if (c.windowed_layers.empty()) return std::nullopt;
  if (base && scaled && kind != Kind::none) {
    in.top.refuse("rotary_base_local",
                  fmt::format("is not supported together with {} scaling of the windowed layers; "
                              "expected hooked.scale_windowed_rope = false, or no local base",
                              word_of(kRopeScalingKindWords, kind)));
  }
  if (!base && !scaled && kind != Kind::none) base = c.rotary.base;
  return base;
}

ModelConfig with_positions(ModelConfig c, const Source& in) {
  c.positions = word_or(in.top, "positional_embedding_type", kPositionKindWords, PositionKind::learned);
  RotaryConfig rotary;
  rotary.dim = in.top.integer_or("rotary_dim", 0);
  rotary.base = in.top.number_or("rotary_base", 10000.0);
  rotary.adjacent_pairs = in.top.boolean_or("rotary_adjacent_pairs", false);
  rotary.at_end = in.hooked.boolean_or("rotary_at_end", false);
  rotary.scaling = read_rope_scaling(in);
  auto with_rotary = c;
  with_rotary.rotary = rotary;
  rotary.local_base = read_local_base(with_rotary, in);
  // TransformerLens's dumps carry its rotary fields for every kind of positions; they only matter for one.
  if (c.positions == PositionKind::rotary) c.rotary = rotary;
  if (c.positions == PositionKind::relative) {
    c.relative.buckets = in.top.integer_or("relative_attention_num_buckets", c.relative.buckets);
    c.relative.max_distance = in.top.integer_or("relative_attention_max_distance", c.relative.max_distance);
  }
  if (in.hooked.has("unrotated_layers")) c.unrotated_layers = in.hooked.booleans("unrotated_layers");

  if (in.hooked.has("alibi_slopes")) {
    c.alibi_slopes = in.hooked.numbers("alibi_slopes");
  } else if (c.positions == PositionKind::alibi && c.n_heads >= 1 && c.n_heads <= kMaxHeads) {
    c.alibi_slopes = geometric_alibi_slopes(c.n_heads);
  }
  c.alibi_in_bfloat16 = in.hooked.boolean_or("alibi_in_bfloat16", false);
  c.alibi_scaled = in.hooked.boolean_or("alibi_scaled", false);
  return c;
}

at::ScalarType read_dtype(const ConfigReader& reader) {
  if (!reader.has("dtype")) return at::kFloat;
  auto text = reader.text("dtype");
  if (text.starts_with("torch.")) text.erase(0, 6);
  const auto dtype = parse_float_dtype(text);
  if (!dtype) reader.refuse("dtype", "is not supported; expected one of float32, float64, float16, bfloat16");
  return *dtype;
}

ModelConfig with_output_and_record(ModelConfig c, const Source& in) {
  c.embedding_scale = in.hooked.number_or("embedding_scale", 1.0);
  c.unembed_in_scale = in.hooked.number_or("unembed_in_scale", 1.0);
  c.logit_scale = in.hooked.number_or("logit_scale", 1.0);
  c.tied_unembedding = in.hooked.boolean_or("tied_unembedding", false);
  c.unembed_bias = in.hooked.boolean_or("unembed_bias", c.has_unembedding());
  c.token_types = in.hooked.integer_or("token_types", 0);
  if (in.hooked.has("mlm_head")) {
    c.mlm_head = parse_activation(in.hooked.text("mlm_head"));
    if (!c.mlm_head) {
      in.hooked.refuse("mlm_head",
                       fmt::format("is not supported; expected one of {}", all_words(kActivationWords)));
    }
  }
  c.logit_soft_cap = std::max(0.0, in.top.number_or("output_logits_soft_cap", kSoftCapOff));
  c.default_prepend_bos = in.top.boolean_or("default_prepend_bos", true);
  if (c.has_encoder() && in.top.has("decoder_start_token_id")) {
    c.decoder_start_token = in.top.integer("decoder_start_token_id");
  }
  if (in.hooked.has("processing")) c.processing = in.hooked.texts("processing");
  read_dtype(in.top);  // checked, not used: see from_json
  c.dtype = read_dtype(in.hooked);
  return c;
}

// Where the file says what validate() calls by the member's name.
std::string_view json_field(std::string_view member) {
  constexpr std::pair<std::string_view, std::string_view> kFields[] = {
      {"n_kv_heads", "n_key_value_heads"},
      {"norm", "normalization_type"},
      {"norm_folded", "normalization_type"},
      {"norm_place", "hooked.norm_place"},
      {"final_norm", "hooked.final_norm"},
      {"norm_offset", "hooked.norm_offset"},
      {"layout", "parallel_attn_mlp"},
      {"mlp_norm", "act_fn"},
      {"activation", "act_fn"},
      {"gated_bias_after_product", "hooked.gated_bias_after_product"},
      {"direction", "attention_dir"},
      {"window", "window_size"},
      {"windowed_layers", "attn_types"},
      {"score_soft_cap", "attn_scores_soft_cap"},
      {"logit_soft_cap", "output_logits_soft_cap"},
      {"rotary.dim", "rotary_dim"},
      {"rotary.base", "rotary_base"},
      {"rotary.local_base", "rotary_base_local"},
      {"n_encoder_layers", "hooked.n_encoder_layers"},
      {"decoder_start_token", "decoder_start_token_id"},
      {"relative.buckets", "relative_attention_num_buckets"},
      {"relative.max_distance", "relative_attention_max_distance"},
      {"rotary.at_end", "hooked.rotary_at_end"},
      {"latent", "hooked.latent"},
      {"latent.d_kv", "hooked.latent.d_kv"},
      {"latent.d_query", "hooked.latent.d_query"},
      {"latent.d_shared_key", "hooked.latent.d_shared_key"},
      {"latent.d_value", "hooked.latent.d_value"},
      {"latent.eps", "hooked.latent.eps"},
      {"alibi_slopes", "hooked.alibi_slopes"},
      {"alibi_in_bfloat16", "hooked.alibi_in_bfloat16"},
      {"alibi_scaled", "hooked.alibi_scaled"},
      {"unrotated_layers", "hooked.unrotated_layers"},
      {"qk_norm_kind", "hooked.qk_norm_kind"},
      {"qk_norm_bias", "hooked.qk_norm_bias"},
      {"qkv_clip", "hooked.qkv_clip"},
      {"swish_beta", "hooked.swish_beta"},
      {"gate_limit", "hooked.gate_limit"},
      {"up_offset", "hooked.up_offset"},
      {"experts.n_experts", "num_experts"},
      {"experts.per_token", "experts_per_token"},
      {"experts.renormalised", "norm_topk_prob"},
      {"experts.d_expert", "hooked.experts.d_expert"},
      {"experts.dense_layers", "hooked.experts.dense_layers"},
      {"experts.choice_bias", "hooked.experts.choice_bias"},
      {"experts.n_groups", "hooked.experts.n_groups"},
      {"experts.groups_per_token", "hooked.experts.groups_per_token"},
      {"experts.group_score", "hooked.experts.group_score"},
      {"experts.least_sum", "hooked.experts.least_sum"},
      {"experts.mixer_tolerance", "hooked.experts.mixer_tolerance"},
      {"experts.d_shared", "hooked.experts.d_shared"},
      {"experts.shared_gate", "hooked.experts.shared_gate"},
      {"experts.shared_gate_bias", "hooked.experts.shared_gate_bias"},
      {"mlp", "gated_mlp"},
      {"embedding_scale", "hooked.embedding_scale"},
      {"unembed_in_scale", "hooked.unembed_in_scale"},
      {"logit_scale", "hooked.logit_scale"},
      {"tied_unembedding", "hooked.tied_unembedding"},
      {"embedding_sum_norm", "hooked.embedding_sum_norm"},
      {"token_types", "hooked.token_types"},
      {"mlm_head", "hooked.mlm_head"},
      {"processing", "hooked.processing"},
  };
  for (const auto& [name, field] : kFields) {
    if (name == member) return field;
  }
  return member;
}

}  // namespace

ParsedConfig ModelConfig::from_json(std::string_view text, std::string_view where) {
  const ConfigReader top(text, where);
  const Source in{top, top.object_if("hooked").value_or(ConfigReader("{}", where))};
  if (top.text_or("model_type", kModelType) != kModelType) {
    top.refuse("model_type", fmt::format("is not the native model type; expected {}", kModelType));
  }
  refuse_unsupported(top);
  auto config = with_sizes({}, in);
  config = with_norms(std::move(config), in);
  config = with_blocks(std::move(config), in);
  config = with_attention(std::move(config), in);
  config = with_positions(std::move(config), in);
  config = with_output_and_record(std::move(config), in);
  in.hooked.refuse_unread();
  ignore_runtime_fields(top);
  try {
    config.validate();
  } catch (const ConfigError& error) {
    const std::string_view member = error.where();
    const auto message = std::string_view(error.what()).substr(member.size() + 3);  // past "[where] "
    const auto field = json_field(member);
    throw ConfigError(fmt::format("{}: {}", printable(where), field),
                      fmt::format("{}{}", field == member ? "" : fmt::format("{}: ", member), message));
  }
  return {std::move(config), top.unread(), in.hooked.has("processing")};
}

}  // namespace hooked
