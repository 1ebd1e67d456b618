#include <ATen/ops/diag_embed.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/transpose.h>

#include "tests/weights/square_model.h"

namespace hooked::refactor_attention_test {
namespace {

/// float64, products of entries of size one.
constexpr double kTolerance = 1e-12;

ProcessedWeights refactor(const StateDict& weights, const ModelConfig& config) {
  return process_weights(weights, config,
                         WeightProcessing::only({ProcessingStep::refactor_factored_attn_matrices}));
}

at::Tensor product(const StateDict& weights, const std::string& circuit) {
  const auto of = [&](const std::string& name) { return weights.at("blocks.0.attn." + name); };
  return circuit == "QK" ? of("W_Q").matmul(of("W_K").transpose(1, 2)) : of("W_V").matmul(of("W_O"));
}

/// Largest off-diagonal entry of A^T A per head.
double off_diagonal(const at::Tensor& A) {
  const at::Tensor gram = A.transpose(1, 2).matmul(A);
  return (gram - at::diag_embed(gram.diagonal(0, 1, 2))).abs().max().item<double>();
}

TEST(RefactorAttention, KeepsTheCircuitsAndMakesTheFactorsOrthogonal) {
  ModelConfig config = square_config();
  config.qkv_bias = false;
  const StateDict raw = reference::random_weights(config, 1);
  const auto [weights, after, report] = refactor(raw, config);
  EXPECT_LT(difference(product(weights, "QK"), product(raw, "QK")), kTolerance);
  EXPECT_LT(difference(product(weights, "OV"), product(raw, "OV")), kTolerance);
  for (const char* name : {"W_Q", "W_K", "W_V"}) {
    EXPECT_LT(off_diagonal(weights.at(std::string("blocks.0.attn.") + name)), kTolerance) << name;
  }
  const at::Tensor W_O = weights.at("blocks.0.attn.W_O");
  const at::Tensor gram = W_O.matmul(W_O.transpose(1, 2));
  EXPECT_LT((gram - at::diag_embed(at::ones({3, 4}, at::kDouble))).abs().max().item<double>(), kTolerance);
  EXPECT_FALSE(weights.contains("blocks.0.attn.b_Q"));
}

TEST(RefactorAttention, BiasesAreARowOfTheFactors) {
  const ModelConfig config = square_config();
  const StateDict raw = reference::random_weights(config, 2);
  const auto [weights, after, report] = refactor(raw, config);
  EXPECT_LT(difference(product(weights, "QK"), product(raw, "QK")), kTolerance);
  EXPECT_EQ(weights.at("blocks.0.attn.b_V").abs().max().item<double>(), 0.0);
  EXPECT_LT(log_probability_difference(raw, config, {weights, after, report}, 2), kLogProbabilityTolerance);
}

TEST(RefactorAttention, HeadsWiderThanTheModel) {
  ModelConfig config = square_config();
  config.d_head = 20;
  const StateDict raw = reference::random_weights(config, 3);
  const auto [weights, after, report] = refactor(raw, config);
  EXPECT_LT(difference(product(weights, "OV"), product(raw, "OV")), kTolerance);
  EXPECT_LT(log_probability_difference(raw, config, {weights, after, report}, 3), kLogProbabilityTolerance);
}

}  // namespace
}  // namespace hooked::refactor_attention_test
