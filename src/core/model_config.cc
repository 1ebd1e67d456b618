#include "hooked/core/model_config.h"

#include <fmt/format.h>

#include <cmath>

#include "core/model_config_fields.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::int64_t kXieluNumbers = 4;  // two slopes, the shared one and its bound

std::int64_t norm_parameters(NormKind kind, std::int64_t width, bool bias) {
  if (kind == NormKind::none) return 0;
  return kind == NormKind::layer_norm && bias ? 2 * width : width;
}

// Norms of width d_model in one block that carry weights. ln1_post and ln2_post are never folded away.
std::int64_t weighted_block_norms(const ModelConfig& config) {
  const std::int64_t sublayers = config.has_mlp() ? 2 : 1;
  const std::int64_t before = config.layout == BlockLayout::parallel_one_norm ? 1 : sublayers;
  switch (config.norm_place) {
    case NormPlace::pre:
    case NormPlace::post:
    case NormPlace::stream:
      return config.norm_folded ? 0 : before;
    case NormPlace::output:
      return sublayers;
    case NormPlace::both:
      return config.norm_folded ? sublayers : 2 * sublayers;
  }
  return 0;
}

std::int64_t attention_parameters(const ModelConfig& config) {
  const auto q_width = config.n_heads * config.d_head;
  const auto kv_width = config.n_kv_heads * config.d_head;
  auto read = q_width + 2 * kv_width;  // outputs of the maps that read the stream
  std::int64_t count = 0;
  if (config.latent) {
    const Latents& latent = *config.latent;
    read = (latent.d_query > 0 ? latent.d_query : q_width) + latent.d_kv + latent.d_shared_key;
    const auto from_latent = config.n_heads * (config.own_key_dim() + latent.d_value);
    count += latent.d_query * (q_width + 1) + latent.d_kv * (from_latent + 1);  // 1: the norm's weight
  }
  count += config.d_model * (read + config.n_heads * config.value_dim());
  if (config.qkv_bias) count += read;
  if (config.attn_out_bias) count += config.d_model;
  if (config.attention_sinks) count += config.n_heads;
  if (config.qk_norm) {
    const bool shared = config.qk_norm->span == QkNorm::per_head;
    count += (config.qk_norm->bias ? 2 : 1) * (shared ? 2 * config.d_head : q_width + kv_width);
  }
  return count;
}

// One MLP of that many neurons, without numbers of its activation.
std::int64_t mlp_parameters(const ModelConfig& config, std::int64_t width, bool bias) {
  const bool gated = config.mlp == MlpKind::gated;
  auto count = (gated ? 3 : 2) * config.d_model * width;
  if (bias) {
    const bool gate_bias = gated && !config.gated_bias_after_product;
    count += config.d_model + (gate_bias ? 2 : 1) * width;
  }
  return count;
}

std::int64_t dense_mlp_parameters(const ModelConfig& config) {
  auto count = mlp_parameters(config, config.d_mlp, config.mlp_bias);
  if (config.activation.kind() == Activation::xielu) count += kXieluNumbers;
  if (config.mlp_norm && !config.norm_folded) {
    count += norm_parameters(NormKind::layer_norm, config.d_mlp, config.norm_bias);
  }
  return count;
}

std::int64_t mixture_parameters(const ModelConfig& config) {
  const Experts& e = *config.experts;
  auto count = e.n_experts * (config.d_model + mlp_parameters(config, e.d_expert, e.bias));
  if (e.router_bias) count += e.n_experts;
  if (e.choice_bias) count += e.n_experts;
  if (e.d_shared > 0) count += mlp_parameters(config, e.d_shared, config.mlp_bias);
  if (e.shared_gate) count += config.d_model + (e.shared_gate_bias ? 1 : 0);
  return count;
}

std::int64_t all_mlp_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    if (config.mixture(layer)) {
      count += mixture_parameters(config);
    } else if (config.has_mlp()) {
      count += dense_mlp_parameters(config);
    }
  }
  return count;
}

// An encoder's blocks and final norm, and what the decoder's blocks have to read it.
std::int64_t encoder_parameters(const ModelConfig& config) {
  const std::int64_t norm = norm_parameters(config.norm, config.d_model, config.norm_bias);
  const std::int64_t block = 2 * norm + attention_parameters(config) + dense_mlp_parameters(config);
  return config.n_encoder_layers() * block + norm + config.n_layers * (norm + attention_parameters(config));
}

}  // namespace

std::vector<BlockPlace> ModelConfig::blocks() const {
  std::vector<BlockPlace> all;
  for (std::int64_t layer = 0; layer < n_encoder_layers(); ++layer) all.push_back({Stack::encoder, layer});
  for (std::int64_t layer = 0; layer < n_layers; ++layer) all.push_back({main_stack(), layer});
  return all;
}

std::int64_t ModelConfig::parameter_count() const {
  auto count = d_vocab * d_model;
  if (has_pos_embed()) count += n_ctx * d_model;
  count += token_types * d_model;
  if (post_embedding_norm || embedding_sum_norm)
    count += norm_parameters(NormKind::layer_norm, d_model, norm_bias);
  count += n_layers * (weighted_block_norms(*this) * norm_parameters(norm, d_model, norm_bias) +
                       attention_parameters(*this)) +
           all_mlp_parameters(*this);
  if (has_encoder()) count += encoder_parameters(*this);
  if (relative() != nullptr) count += (has_encoder() ? 2 : 1) * relative()->buckets * n_heads;
  if (!norm_folded) count += norm_parameters(final_norm, d_model, norm_bias);
  if (!tied_unembedding()) count += d_model * d_vocab_out();
  if (unembedding && unembedding->bias) count += unembedding->d_vocab;
  if (has_mlm_head()) {
    count += d_model * d_model + d_model + norm_parameters(NormKind::layer_norm, d_model, norm_bias);
  }
  return count;
}

ModelConfig without_unembedding(ModelConfig config) {
  config.unembedding.reset();
  config.final_norm = NormKind::none;
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
