#include "hooked/core/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/model_config_fields.h"
#include "hooked/core/error.h"

namespace hooked {

std::vector<BlockPlace> ModelConfig::blocks() const {
  std::vector<BlockPlace> all;
  for (std::int64_t layer = 0; layer < n_encoder_layers(); ++layer) all.push_back({Stack::encoder, layer});
  for (std::int64_t layer = 0; layer < n_layers; ++layer) all.push_back({main_stack(), layer});
  return all;
}

std::int64_t ModelConfig::key_layer(std::int64_t l) const {
  if (!shares_keys(l)) return l;
  std::int64_t source = layers_with_keys() - 1;
  while (source > 0 && windowed(source) != windowed(l)) --source;
  return source;
}

bool ModelConfig::logits_centred() const {
  return std::ranges::find(processing, "center_unembed") != processing.end();
}

bool ModelConfig::lends_keys(std::int64_t l) const {
  for (std::int64_t later = layers_with_keys(); later < n_layers; ++later) {
    if (key_layer(later) == l) return true;
  }
  return false;
}

std::int64_t ModelConfig::last_start(std::int64_t l, std::int64_t end_layer) const {
  std::int64_t start = l;
  // With an earlier start more layers run, which need keys, too.
  for (std::int64_t later = end_layer - 1; later >= std::max(start, layers_with_keys()); --later) {
    start = std::min(start, key_layer(later));
  }
  return start;
}

ModelConfig without_unembedding(ModelConfig config) {
  config.unembedding.reset();
  config.final_norm = NormKind::none;
  return config;
}

ModelConfig encoder_alone(ModelConfig config) {
  if (!config.has_encoder()) return config;
  config.n_layers = config.n_encoder_layers();
  config.encoder.reset();
  config.unembedding.reset();
  config.final_norm = config.norms_stream() ? NormKind::none : config.norm;
  config.direction = AttentionDirection::bidirectional;
  return config;
}

std::vector<double> geometric_alibi_slopes(std::int64_t n_heads) {
  if (n_heads < 1 || n_heads > kMaxHeads) {
    throw ConfigError("n_heads", fmt::format("out of range; expected 1 to {}, got {}", kMaxHeads, n_heads));
  }
  std::vector<double> slopes(static_cast<std::size_t>(n_heads));
  for (std::size_t head = 0; head < slopes.size(); ++head) {
    slopes[head] = std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(n_heads));
  }
  return slopes;
}

std::optional<Activation> parse_activation(std::string_view name) noexcept {
  const auto kind = value_of(kActivationWords, name);
  return kind ? std::optional<Activation>(*kind) : std::nullopt;
}

std::string_view activation_name(Activation activation) noexcept {
  return word_of(kActivationWords, activation.kind());
}

}  // namespace hooked
