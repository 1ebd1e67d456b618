#include <cstddef>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/model_config_fields.h"
#include "families/shared/native_config.h"
#include "families/shared/native_keys.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

Json as_json(std::string_view text) { return std::string(text); }
Json as_json(at::ScalarType dtype) { return as_json(dtype_text(dtype)); }
Json as_json(const Activation& activation) { return as_json(activation_name(activation)); }
double written_cap(double cap) { return cap > 0 ? cap : kSoftCapOff; }

template <class Value, class Rule>
Json as_json(const Value& value, const Rule&) {
  if constexpr (std::is_arithmetic_v<Value>) {
    return value;
  } else if constexpr (requires { value.size(); }) {
    return value;
  } else {
    return as_json(value);
  }
}
template <class E, std::size_t N>
Json as_json(const E& value, const field::OneOf<E, N>& rule) {
  return as_json(word_of(rule.words, value));
}
// Null: does not write anything.
template <class Value, class Rule>
Json as_json(const std::optional<Value>& value, const Rule& rule) {
  return value ? as_json(*value, rule) : Json();
}

/// Values by their places in the file, in the order of insertion.
class Entries {
 public:
  void set(std::string_view key, Json value) { entries_.emplace_back(std::string(key), std::move(value)); }

  const Json* find(std::string_view key) const {
    for (const auto& [name, value] : entries_) {
      if (name == key) return &value;
    }
    return nullptr;
  }

  /// The file: keys in the table's order, then the others.
  Json in_order() && {
    Json json = Json::object();
    for (const NativeKey& row : kNativeKeys) {
      for (auto& [name, value] : entries_) {
        const bool within = name.starts_with(row.key) && name[row.key.size()] == '.';
        if (name == row.key || within) move_to(json, name, value);
      }
    }
    for (auto& [name, value] : entries_) move_to(json, name, value);
    return json;
  }

 private:
  static void move_to(Json& json, std::string& name, Json& value) {
    if (name.empty()) return;  // it is already written
    Json* place = &json;
    std::size_t begin = 0;
    for (std::size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
      place = &(*place)[name.substr(begin, dot - begin)];
    }
    (*place)[name.substr(begin)] = std::move(value);
    name.clear();
  }

  std::vector<std::pair<std::string, Json>> entries_;
};

/// Writes every field with a value that does not have a special form.
struct WriteField {
  Entries& entries;
  const Entries* defaults;  ///< values that are left out; null: none are

  template <class Value, class Rule>
  void operator()(std::string_view path, const Value& value, const Rule& rule) const {
    const NativePlace place = native_place(path);
    if (place.form == NativeForm::own) return;
    Json json = as_json(value, rule);
    if (place.form != NativeForm::always) {
      if (json.is_null() || (json.is_array() && json.empty())) return;
      const Json* usual = defaults == nullptr ? nullptr : defaults->find(place.key);
      if (usual != nullptr && *usual == json && place.key.starts_with(kHookedGroup)) return;
    }
    entries.set(place.key, std::move(json));
  }
};

Entries default_values() {
  Entries defaults;
  const ModelConfig config{.unembedding = Unembedding{}, .positions = RotaryPositions{}};
  visit_fields(WriteField{defaults, nullptr}, config);
  return defaults;
}

Json normalization_type(const ModelConfig& c) {
  for (const auto& type : kNormalizationTypes) {
    if (type.norm == c.norm && type.folded == c.norm_folded) return as_json(type.text);
  }
  return {};
}

void write_blocks(const ModelConfig& c, Entries& to) {
  to.set("n_heads", c.n_heads);
  to.set("n_key_value_heads", c.grouped_query() ? Json(c.n_kv_heads) : Json());
  to.set("d_mlp", c.has_mlp() ? Json(c.d_mlp) : Json());
  to.set("normalization_type", normalization_type(c));
  to.set("use_normalization_before_and_after", c.norm_place == NormPlace::both);
  to.set("final_rms", c.norm == NormKind::layer_norm && c.final_norm == NormKind::rms_norm);
  to.set("parallel_attn_mlp", c.parallel());
  to.set("hooked.parallel_one_norm", c.layout == BlockLayout::parallel_one_norm);
  to.set("attn_only", !c.has_mlp());
  to.set("gated_mlp", c.mlp == MlpKind::gated);
  to.set("act_fn", c.mlp_norm ? Json("solu_ln") : as_json(c.activation));
  if (c.activation.kind() == Activation::swish) to.set("hooked.swish_beta", c.activation.beta());
}

void write_attention(const ModelConfig& c, Entries& to) {
  to.set("use_attn_scale", true);
  to.set("attn_scale", c.attn_scale);
  to.set("attn_scores_soft_cap", written_cap(c.score_soft_cap));
  to.set("use_qk_norm", c.qk_norm.has_value());
  to.set("hooked.qk_norm", as_json(c.qk_norm ? word_of(kQkNormSpanWords, c.qk_norm->span) : "none"));
  to.set("use_local_attn", c.window.has_value());
  if (c.window) {
    Json types;
    for (const bool local : c.window->layers) types.push_back(local ? "local" : "global");
    to.set("attn_types", std::move(types));
  }
  to.set("positional_embedding_type", as_json(word_of(c.positions)));
  const RotaryPositions* rotary = c.rotary();
  if (rotary == nullptr) return;
  to.set("rotary_dim", rotary->dim > 0 ? Json(rotary->dim) : Json());
  to.set("rotary_base_local", rotary->local_base ? Json(*rotary->local_base) : Json());
  if (std::holds_alternative<Llama3Scaling>(rotary->scaling)) to.set("use_NTK_by_parts_rope", true);
  if (const auto* yarn = std::get_if<YarnScaling>(&rotary->scaling)) {
    to.set("use_yarn_rope", true);
    to.set("yarn_truncate", yarn->truncate);
  }
  if (c.window && !std::holds_alternative<NoScaling>(rotary->scaling)) {
    to.set("hooked.scale_windowed_rope", !rotary->local_base.has_value());
  }
}

void write_ends(const ModelConfig& c, Entries& to) {
  to.set("d_vocab_out", c.d_vocab_out());
  to.set("dtype", as_json(c.dtype));
  to.set("output_logits_soft_cap", written_cap(c.unembedding ? c.unembedding->soft_cap : 0.0));
  if (!c.unembedding) {
    to.set("hooked.unembed_bias", false);
    to.set("hooked.tied_unembedding", false);
  } else if (const auto& head = c.unembedding->mlm_head; head && head->kind() == Activation::swish) {
    to.set("hooked.mlm_head_swish_beta", head->beta());
  }
}

}  // namespace

std::string write_native_config(const ModelConfig& config, std::optional<std::int64_t> padding_token) {
  config.validate();
  static const Entries kDefaults = default_values();
  Entries entries;
  entries.set("model_type", as_json(kNativeModelType));
  visit_fields(WriteField{entries, &kDefaults}, config);
  write_blocks(config, entries);
  write_attention(config, entries);
  write_ends(config, entries);
  if (padding_token) entries.set("hooked.padding_token", *padding_token);
  return std::move(entries).in_order().dump(2) + "\n";
}

}  // namespace hooked
