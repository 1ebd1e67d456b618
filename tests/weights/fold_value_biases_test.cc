
#include "tests/weights/square_model.h"

namespace hooked::fold_value_biases_test {
namespace {

ProcessedWeights fold(const StateDict& weights, const ModelConfig& config) {
  return process_weights(weights, config, WeightProcessing::only({ProcessingStep::fold_value_biases}));
}

TEST(FoldValueBiases, TheOutputBiasTakesThem) {
  const ModelConfig config = square_config();
  const StateDict raw = reference::random_weights(config, 1);
  const StateDict folded = fold(raw, config).weights;
  const auto of = [&](const std::string& name) { return raw.at("blocks.1.attn." + name); };
  EXPECT_LT(
      difference(folded.at("blocks.1.attn.b_O"), of("b_O") + at::einsum("hd,hdm->m", {of("b_V"), of("W_O")})),
      1e-13);  // float64
  EXPECT_EQ(folded.at("blocks.1.attn.b_V").abs().max().item<double>(), 0.0);
}

TEST(FoldValueBiases, SharedValueHeadsServeTheirHeadsInARow) {
  ModelConfig config = square_config();
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.attn_out_bias = false;
  const StateDict raw = reference::random_weights(config, 2);
  const auto [folded, after, report] = fold(raw, config);
  const at::Tensor b_V = raw.at("blocks.0.attn._b_V");
  at::Tensor expected = at::zeros({12}, at::kDouble);
  for (std::int64_t head = 0; head < 4; ++head) {
    expected = expected + at::einsum("d,dm->m", {b_V[head / 2], raw.at("blocks.0.attn.W_O")[head]});
  }
  EXPECT_LT(difference(folded.at("blocks.0.attn.b_O"), expected), 1e-13);  // float64
  EXPECT_TRUE(after.attn_out_bias);
  EXPECT_TRUE(after.qkv_bias);
}

}  // namespace
}  // namespace hooked::fold_value_biases_test
