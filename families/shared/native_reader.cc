#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/json.h"
#include "core/model_config_fields.h"
#include "families/shared/native_config.h"
#include "families/shared/native_keys.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

// Note [Native config]
// The JSON form is TransformerLens's own config fields. What those cannot express is in the group `hooked`. A
// field that is absent there follows from TransformerLens's fields, so that its dumps load as they are. Every
// key of the group changes what the model computes, so an unknown one is refused; elsewhere unknown keys are
// only reported. Reading first finds the model's parts and the defaults of absent fields, then reads every
// field that the file has under its key (native_keys.h).

namespace hooked {
namespace {

constexpr double kAttnScaleUnset = -1.0;
constexpr std::int64_t kSizeUnset = -1;

template <class Words>
auto word_of_file(const ConfigReader& reader, std::string_view key, const Words& words) {
  const auto value = value_of(words, reader.text(key));
  if (!value) reader.refuse(key, fmt::format("is not supported; expected one of {}", all_words(words)));
  return *value;
}

at::ScalarType read_dtype(const ConfigReader& reader, std::string_view key) {
  auto text = reader.text(key);
  if (text.starts_with("torch.")) text.erase(0, 6);
  const auto dtype = parse_float_dtype(text);
  if (!dtype) reader.refuse(key, "is not supported; expected one of float32, float64, float16, bfloat16");
  return *dtype;
}

// The value of a field, by its type.
template <class Value>
Value value_of_file(const ConfigReader& in, std::string_view key) {
  if constexpr (std::is_same_v<Value, std::int64_t>) return in.integer(key);
  if constexpr (std::is_same_v<Value, double>) return in.number(key);
  if constexpr (std::is_same_v<Value, bool>) return in.boolean(key);
  if constexpr (std::is_same_v<Value, std::vector<bool>>) return in.booleans(key);
  if constexpr (std::is_same_v<Value, std::vector<double>>) return in.numbers(key);
  if constexpr (std::is_same_v<Value, std::vector<std::string>>) return in.texts(key);
  if constexpr (std::is_same_v<Value, at::ScalarType>) return read_dtype(in, key);
  if constexpr (std::is_same_v<Value, Activation>) return word_of_file(in, key, kActivationWords);
  if constexpr (requires { typename Value::value_type; } && std::is_constructible_v<Value, std::nullopt_t>) {
    return value_of_file<typename Value::value_type>(in, key);
  }
}

/// Reads the fields that the file has and that do not have a special form.
struct ReadField {
  const NativeSource& in;

  template <class Value, class Rule>
  void operator()(std::string_view path, Value& value, const Rule& rule) const {
    const NativePlace place = native_place(path);
    if (place.form == NativeForm::own) return;
    std::string_view key = place.key;
    if (!key.starts_with(kHookedGroup)) return take(in.top, key, value, rule);
    key.remove_prefix(kHookedGroup.size());
    const std::size_t dot = key.find('.');
    if (dot == std::string_view::npos) return take(in.hooked, key, value, rule);
    if (const auto group = in.hooked.object_if(key.substr(0, dot))) {
      take(*group, key.substr(dot + 1), value, rule);
    }
  }

  template <class Value, class Rule>
  static void take(const ConfigReader& reader, std::string_view key, Value& value, const Rule& rule) {
    if (!reader.has(key)) return;
    if constexpr (requires { rule.words; }) {
      value = word_of_file(reader, key, rule.words);
    } else {
      value = value_of_file<Value>(reader, key);
    }
  }
};

// Features that change the function and that the graph lacks: refused if set.
void refuse_unsupported(const ConfigReader& top) {
  for (const auto key : {"quantization_method", "quantization_config", "clip_qkv"}) {
    if (top.has(key)) top.refuse(key, "is not supported; expected null, or no such field");
  }
  for (const auto key : {"load_in_4bit", "use_attention_sinks", "use_logn_attn", "use_dynamic_ntk_rope"}) {
    if (top.boolean_or(key, false)) top.refuse(key, "is not supported; expected false, or no such field");
  }
}

// TransformerLens's fields about running, training and tokenizing, which do not affect the function, and
// fields of parts that the model does not have.
void ignore_other_fields(const ConfigReader& top) {
  for (const NativeKey& row : kNativeKeys) {
    if (!row.key.starts_with(kHookedGroup)) top.ignore({row.key});
  }
  top.ignore({"device", "n_devices", "use_attn_result", "use_split_qkv_input", "use_hook_mlp_in",
              "use_attn_in", "use_hook_tokens", "ungroup_grouped_query_attention", "tokenizer_name",
              "tokenizer_prepends_bos", "model_name", "trust_remote_code"});
  top.ignore({"seed", "init_mode", "init_weights", "initializer_range", "n_params", "from_checkpoint",
              "checkpoint_index", "checkpoint_label_type", "checkpoint_value", "uses_rms_norm",
              "layer_norm_folding", "yarn_global_attn_only", "tie_word_embeddings", "train_seq_length"});
}

void read_sizes(const NativeSource& in, ModelConfig& c) {
  c.n_layers = in.top.integer("n_layers");
  if (const auto n = in.hooked.integer_or("n_encoder_layers", 0); n != 0) c.encoder = Encoder{.n_layers = n};
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
}

void read_unembedding(const NativeSource& in, ModelConfig& c) {
  const auto d_vocab_out = in.top.integer_or("d_vocab_out", kSizeUnset);
  if (d_vocab_out != 0) {
    c.unembedding = Unembedding{.d_vocab = d_vocab_out == kSizeUnset ? c.d_vocab : d_vocab_out};
    c.unembedding->soft_cap = std::max(0.0, in.top.number_or("output_logits_soft_cap", kSoftCapOff));
    return;
  }
  for (const auto key : {"tied_unembedding", "unembed_bias"}) {
    if (in.hooked.boolean_or(key, false)) {
      in.hooked.refuse(key, "needs an unembedding; expected false, because d_vocab_out is 0");
    }
  }
}

void read_norms(const NativeSource& in, ModelConfig& c) {
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
  const bool output = in.names({"Olmo2ForCausalLM", "Olmo3ForCausalLM"});
  c.norm_place = both ? NormPlace::both : output ? NormPlace::output : NormPlace::pre;
  if (in.hooked.has("norm_place")) c.norm_place = word_of_file(in.hooked, "norm_place", kNormPlaceWords);
  if (both && c.norm_place != NormPlace::both) {
    in.hooked.refuse("norm_place", "contradicts use_normalization_before_and_after = true; expected both");
  }
  const bool final_rms = in.top.boolean_or("final_rms", false);
  c.final_norm = final_rms && c.norm == NormKind::layer_norm ? NormKind::rms_norm : c.norm;
  if (c.norm_place == NormPlace::post || !c.has_unembedding()) c.final_norm = NormKind::none;
}

void read_experts(const NativeSource& in, ModelConfig& c) {
  if (!in.top.has("num_experts") && !in.top.has("experts_per_token")) {
    if (in.hooked.object_if("experts"))
      in.hooked.refuse("experts", "needs num_experts and experts_per_token; got neither");
    return;
  }
  c.experts = Experts{.n_experts = in.top.integer("num_experts"),
                      .per_token = in.top.integer("experts_per_token"),
                      .d_expert = c.d_mlp};
  if (in.gpt_oss()) {  // TransformerLens knows this mixture by its architecture's name only
    c.experts->router = RouterKind::choose_then_softmax;
    c.experts->router_bias = c.experts->bias = true;
  }
}

void read_mlp(const NativeSource& in, ModelConfig& c) {
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
  // TransformerLens also fills in a width for attention-only models.
  const auto d_mlp = in.top.integer_or("d_mlp", c.d_model <= kMaxWidth ? 4 * c.d_model : 0);
  c.d_mlp = attn_only ? 0 : d_mlp;

  const auto name = in.top.text_or("act_fn", "relu");
  const bool solu_ln = name == "solu_ln";
  const auto activation = solu_ln ? Activation::solu : parse_activation(name);
  if (!activation) {
    in.top.refuse("act_fn",
                  fmt::format("is not supported; expected one of {}, solu_ln", all_words(kActivationWords)));
  }
  c.activation = in.gpt_oss() ? Activation::swish : *activation;
  if (c.activation.kind() == Activation::swish) {
    c.activation = Activation::swish_with(in.hooked.number_or("swish_beta", in.gpt_oss() ? 1.702 : 1.0));
  }
  c.mlp_norm = solu_ln && !attn_only;
  if (in.gpt_oss()) {
    c.gate_limit = 7.0;
    c.up_offset = true;
  }
  read_experts(in, c);
  // TransformerLens's experts have no such bias.
  c.gated_bias_after_product = c.mlp == MlpKind::gated && !c.experts;
}

void read_windows(const NativeSource& in, ModelConfig& c) {
  if (!in.top.boolean_or("use_local_attn", false)) return;
  Window window;
  for (const auto& type : in.top.texts("attn_types")) {
    if (type != "global" && type != "local")
      in.top.refuse("attn_types", "is not supported; expected global and local");
    window.layers.push_back(type == "local");
  }
  window.size = in.top.integer("window_size");
  if (std::ranges::find(window.layers, true) != window.layers.end()) c.window = std::move(window);
}

void read_attention(const NativeSource& in, ModelConfig& c) {
  const bool scaled = in.top.boolean_or("use_attn_scale", true);
  const auto scale = in.top.number_or("attn_scale", kAttnScaleUnset);
  const auto usual = std::sqrt(static_cast<double>(c.d_head));
  c.attn_scale = !scaled ? 1.0 : scale == kAttnScaleUnset && c.d_head > 0 ? usual : scale;
  c.score_soft_cap = std::max(0.0, in.top.number_or("attn_scores_soft_cap", kSoftCapOff));
  const bool per_head = in.top.boolean_or("use_qk_norm", false);
  const bool whole = in.names({"Olmo2ForCausalLM", "Olmo3ForCausalLM", "OlmoeForCausalLM"});
  if (in.hooked.has("qk_norm")) {
    if (in.hooked.text("qk_norm") != "none")
      c.qk_norm = QkNorm{.span = word_of_file(in.hooked, "qk_norm", kQkNormSpanWords)};
  } else if (per_head || whole) {
    c.qk_norm = QkNorm{.span = per_head ? QkNorm::per_head : QkNorm::whole_projection};
  }
  if (in.hooked.object_if("query_growth")) c.query_growth.emplace();
  if (in.hooked.object_if("full_heads"))
    c.full_heads = FullHeads{.d_head = c.d_head, .n_kv_heads = c.n_kv_heads};
  if (in.hooked.object_if("shared_keys")) c.shared_keys = SharedKeys{.layers = 0, .d_mlp = c.d_mlp};
  if (in.hooked.object_if("layer_input")) c.layer_input.emplace();
  if (const auto group = in.hooked.object_if("latent")) {
    c.latent = Latents{.d_kv = group->integer("d_kv"), .d_value = c.d_head};
  }
  if (const auto group = in.hooked.object_if("short_conv")) {
    c.short_conv = ShortConvolution{.kernel = group->integer("kernel"), .layers = group->booleans("layers")};
  }
  if (const auto group = in.hooked.object_if("delta_net")) {
    c.delta_net = DeltaNet{.n_key_heads = group->integer("n_key_heads"),
                           .n_heads = group->integer("n_heads"),
                           .d_key = group->integer("d_key"),
                           .d_value = group->integer("d_value"),
                           .kernel = group->integer("kernel"),
                           .layers = group->booleans("layers")};
  }
  read_windows(in, c);
}

}  // namespace

NativeConfig read_native_config(std::string_view text, std::string_view where) {
  const ConfigReader top(text, where);
  const NativeSource in{top, top.object_if("hooked").value_or(ConfigReader("{}", where))};
  if (top.text_or("model_type", kNativeModelType) != kNativeModelType) {
    top.refuse("model_type", fmt::format("is not the native model type; expected {}", kNativeModelType));
  }
  refuse_unsupported(top);
  if (top.has("dtype")) read_dtype(top, "dtype");  // checked, but not used
  ModelConfig c;
  read_sizes(in, c);
  read_unembedding(in, c);
  read_norms(in, c);
  read_mlp(in, c);
  read_attention(in, c);
  read_native_positions(in, c);
  visit_fields(ReadField{in}, c);
  if (c.has_mlm_head() && c.unembedding->mlm_head->kind() == Activation::swish) {
    c.unembedding->mlm_head = Activation::swish_with(in.hooked.number_or("mlm_head_swish_beta", 1.0));
  }
  std::optional<std::int64_t> padding_token;
  if (in.hooked.has("padding_token")) padding_token = in.hooked.integer("padding_token");
  in.hooked.refuse_unread();
  ignore_other_fields(top);
  try {
    c.validate();
  } catch (const ConfigError& error) {
    const std::string key = native_place(error.where()).key;
    throw ConfigError(fmt::format("{}: {}", printable(where), key),
                      key == error.where() ? std::string(error.message())
                                           : fmt::format("{}: {}", error.where(), error.message()));
  }
  return {std::move(c), top.unread(), in.hooked.has("processing"), padding_token};
}

}  // namespace hooked
