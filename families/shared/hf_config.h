#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config_reader.h"
#include "families/family.h"

namespace hooked {

/// The longest context of families whose configs may not state one.
inline constexpr std::int64_t kUnlimitedContext = 1 << 24;

/// The keys of the sizes in a family's config; an empty one is not in its configs.
struct SizeKeys {
  std::string_view n_layers = "num_hidden_layers";
  std::string_view d_model = "hidden_size";
  std::string_view n_heads = "num_attention_heads";
  std::string_view n_kv_heads = "num_key_value_heads";  ///< null: n_heads
  std::int64_t n_kv_heads_fallback = 0;                 ///< if n_kv_heads is absent; 0: n_heads
  std::string_view d_head = "head_dim";                 ///< absent or null: d_head_fallback
  std::int64_t d_head_fallback = 0;                     ///< 0: d_model / n_heads
  std::string_view d_mlp = "intermediate_size";
  std::int64_t mlp_ratio = 0;  ///< d_mlp / d_model if d_mlp is absent; 0: it is required
  std::string_view n_ctx = "max_position_embeddings";
  std::int64_t n_ctx_fallback = 0;  ///< if n_ctx is absent; 0: it is required
};

/// A flag for each layer. `ModelConfig` has an empty list if it is false for all.
using LayerFlags = std::vector<bool>;
using LayerRule = std::function<bool(std::int64_t layer)>;

LayerFlags flag_layers(const ModelConfig& config, const LayerRule& rule);
/// `flags`, or an empty list if none is true.
LayerFlags none_if_all_false(LayerFlags flags);

/// How a config gives its windows.
struct WindowKey {
  std::string_view name;
  std::int64_t fallback = 0;  ///< if the key is absent; 0: as null
  bool null_is_none = false;  ///< whether null means no windows; else null is refused if a layer has one
  Window::Kind kind = Window::sliding;
};

/// A Hugging Face config.json as one family reads it.
///
/// What all families share: sizes, dtype, activation, windows, which unread keys matter. A family reads the
/// rest from `json`. A copy shares the document, and the record of what was read of it.
class HfConfig {
 public:
  /// The object `group` of `text` as a config, or all of the text. Throws ConfigError unless it is an object.
  HfConfig(std::string_view text, std::string_view where, const std::string& group = {});

  const ConfigReader& json() const noexcept { return json_; }

  /// A config with sizes, vocabulary and tying (`tied` if the file does not say it), no biases except those
  /// of norms, and scores divided by sqrt(d_head).
  ModelConfig sizes(const SizeKeys& keys, bool tied);

  /// An integer from 1 to the largest width. Throws ConfigError at the key.
  std::int64_t count(std::string_view key) const;
  /// The same, or `fallback` if the key is absent or null.
  std::int64_t count_or(std::string_view key, std::int64_t fallback) const {
    return json_.has(key) ? count(key) : fallback;
  }
  /// A finite number above 0.
  double positive_or(std::string_view key, double fallback) const;
  Activation activation(std::string_view key, std::string_view fallback) const;

  /// Throws ConfigError at `key` if it is set to anything but null, false, zero or an empty list.
  void require_unset(std::initializer_list<std::string_view> keys) const;

  /// Whether each layer is one of `type`: by `layer_types`, or by `usually` if the key is absent. Layer kinds
  /// other than that and full_attention are refused.
  LayerFlags layers_of_type(const ModelConfig& config, const LayerRule& usually,
                            std::string_view type = "sliding_attention") const;
  /// Gives the layers in `windowed` a window. Throws ConfigError at the key if it does not state a size.
  void set_windows(ModelConfig& config, const WindowKey& window, LayerFlags windowed) const;

  /// Records from where in the file (`config.json: rope_parameters.rope_theta`) a field (`rotary.base`) comes
  /// that may be refused only in combination with others, so that the error names that place.
  void comes_from(std::string field, std::string where);

  /// Records that transformers counts positions by the tokens that are not `token`
  /// (FamilyConfig::padding_token).
  void positions_count_without(std::int64_t token) { padding_token_ = token; }

  /// Records a factor of sublayers' outputs for the family's recipes, which multiply weights by it: no field
  /// of ModelConfig has it.
  void set_output_factor(double factor) { output_factor_ = factor; }
  double output_factor() const noexcept { return output_factor_; }

  /// Adds something that the user should know.
  void note(std::string_view text);

  /// Validates the config and lists the unread keys. A family's reader must have read or refused every key
  /// that changes what transformers' class of that family computes. Throws ConfigError for an invalid
  /// config.
  FamilyConfig finish(ModelConfig config, RecipeMaker recipes) &&;

 private:
  /// The content of `quantization_config`, of the config or of the whole that it is a part of.
  std::optional<QuantisedStorage> storage() const;
  /// Unread keys that change nothing; adds notes about those that sound as if they did. Throws ConfigError at
  /// one that does.
  std::vector<std::string> ignored_keys();

  ConfigReader whole_;
  ConfigReader json_;  // the config: `group_` of the whole
  std::string group_;
  std::vector<std::string> notes_;
  std::optional<std::int64_t> padding_token_;
  double output_factor_ = 1.0;
  std::map<std::string, std::string, std::less<>> origins_;  // places in the file, by our fields
};

}  // namespace hooked
