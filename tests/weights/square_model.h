#pragma once

#include "hooked/weights/processing.h"
#include "tests/reference/plain_model.h"
#include "tests/reference/random_weights.h"
#include "tests/support/tiny_config.h"

namespace hooked {

/// A model of two layers with every bias and LayerNorms, d_mlp = d_vocab = d_model: sizes tell no axes apart.
inline ModelConfig square_config() {
  return tiny_config({.n_layers = 2, .d_model = 12, .n_heads = 3, .d_head = 4, .d_mlp = 12, .d_vocab = 12});
}

/// Allowed `log_probability_difference` of float64 models.
inline constexpr double kLogProbabilityTolerance = 1e-12;

/// Largest absolute difference, in float64.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

inline std::string outcome_of(ProcessingStep step, const std::vector<StepReport>& report) {
  const auto row = std::ranges::find(report, step, &StepReport::step);
  return row == report.end() ? "no row" : row->outcome;
}

/// max|Δ| / max(1, max|x|) over the log-probabilities x of two models on the same random tokens, by the
/// plain-loop reference; rows of padding are left out. Relative, because a model without norms may have
/// logits of 10^6.
inline double log_probability_difference(const StateDict& before, const ModelConfig& config,
                                         const ProcessedWeights& after, std::uint64_t seed) {
  const auto tokens = reference::random_tokens(config, 2, std::min<std::int64_t>(config.n_ctx, 6), seed);
  reference::Mask mask(2, std::vector<std::int64_t>(tokens[0].size(), 1));
  mask[1][0] = 0;
  const auto log_probs = [&](const ModelConfig& of, const StateDict& weights) {
    return reference::log_probabilities(reference::forward(of, weights, tokens, {.mask = mask}).logits);
  };
  const auto expected = log_probs(config, before);
  const auto got = log_probs(after.config, after.weights);
  double largest = 0.0, scale = 1.0;
  for (std::int64_t row = 0; row < expected.rows(); ++row) {
    const auto length = static_cast<std::int64_t>(tokens[0].size());
    if (mask[static_cast<std::size_t>(row / length)][static_cast<std::size_t>(row % length)] == 0) continue;
    for (std::int64_t id = 0; id < expected.last(); ++id) {
      const double gap = std::abs(expected.row(row)[id] - got.row(row)[id]);
      largest = std::isnan(gap) ? INFINITY : std::max(largest, gap);
      scale = std::max(scale, std::abs(expected.row(row)[id]));
    }
  }
  return largest / scale;
}

}  // namespace hooked
