
#include "tests/weights/square_model.h"

namespace hooked::centering_test {
namespace {

/// float64, entries of size one.
constexpr double kTolerance = 1e-14;

double largest_mean(const at::Tensor& values, std::int64_t dim) {
  return values.mean(dim).abs().max().item<double>();
}

TEST(CenterWritingWeights, EveryWriterLosesItsMeanOverDModel) {
  const ModelConfig config = square_config();
  const StateDict raw = reference::random_weights(config, 1);
  const StateDict centered =
      process_weights(raw, config, WeightProcessing::only({ProcessingStep::center_writing_weights})).weights;
  for (const char* name : {"embed.W_E", "pos_embed.W_pos", "blocks.0.attn.W_O", "blocks.1.attn.b_O",
                           "blocks.0.mlp.W_out", "blocks.1.mlp.b_out"}) {
    EXPECT_GT(largest_mean(raw.at(name), -1), 1e-3) << name;
    EXPECT_LT(largest_mean(centered.at(name), -1), kTolerance) << name;
  }
  EXPECT_TRUE(at::equal(centered.at("blocks.0.attn.W_Q"), raw.at("blocks.0.attn.W_Q")));
}

TEST(CenterWritingWeights, TheStreamHasMeanZeroEverywhere) {
  const ModelConfig config = square_config();
  const auto [weights, after, report] = process_weights(reference::random_weights(config, 2), config);
  const auto run = reference::forward(after, weights, {{1, 2, 3}});
  for (const char* name :
       {"blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.1.hook_resid_post"}) {
    const auto& stream = run.activations.at(name);
    for (std::int64_t row = 0; row < stream.rows(); ++row) {
      double total = 0.0;
      for (std::int64_t i = 0; i < stream.last(); ++i) total += stream.row(row)[i];
      EXPECT_NEAR(total, 0.0, 1e-13) << name;
    }
  }
}

TEST(CenterUnembed, LosesItsMeanOverTheVocabularyEvenWhereSizesCoincide) {
  const ModelConfig config = square_config();
  const StateDict raw = reference::random_weights(config, 3);
  const StateDict centered =
      process_weights(raw, config, WeightProcessing::only({ProcessingStep::center_unembed})).weights;
  EXPECT_LT(largest_mean(centered.at("unembed.W_U"), 1), kTolerance);
  EXPECT_GT(largest_mean(centered.at("unembed.W_U"), 0), 1e-3);
  EXPECT_LT(largest_mean(centered.at("unembed.b_U"), 0), kTolerance);
}

TEST(CenterUnembed, TiedEmbeddingKeepsItsValues) {
  ModelConfig config = square_config();
  config.unembedding->tied = true;
  const StateDict raw = reference::random_weights(config, 4);
  const auto [weights, after, report] =
      process_weights(raw, config, WeightProcessing::only({ProcessingStep::center_unembed}));
  EXPECT_FALSE(after.tied_unembedding());
  EXPECT_TRUE(weights.at("embed.W_E").is_same(raw.at("embed.W_E")));
  EXPECT_LT(largest_mean(weights.at("unembed.W_U"), 1), kTolerance);
}

}  // namespace
}  // namespace hooked::centering_test
