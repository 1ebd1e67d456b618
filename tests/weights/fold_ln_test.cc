
#include "tests/weights/square_model.h"

namespace hooked::fold_ln_test {
namespace {

/// float64, entries of size one.
constexpr double kTolerance = 1e-13;

ProcessedWeights fold(const StateDict& weights, const ModelConfig& config) {
  return process_weights(weights, config, WeightProcessing::only({ProcessingStep::fold_ln}));
}

at::Tensor without_mean(const at::Tensor& values, std::int64_t dim) {
  return values - values.mean(dim, true);
}

TEST(FoldLn, MovesGainAndBiasIntoTheReadersAndCentersThem) {
  const ModelConfig config = square_config();
  const StateDict raw = reference::random_weights(config, 1);
  const auto [folded, after, report] = fold(raw, config);
  const std::string block = "blocks.1.";
  const at::Tensor w = raw.at(block + "ln1.w"), b = raw.at(block + "ln1.b");
  for (const char* which : {"Q", "K", "V"}) {
    const at::Tensor W = raw.at(block + "attn.W_" + which);
    EXPECT_LT(difference(folded.at(block + "attn.W_" + which), without_mean(W * w.view({1, -1, 1}), 1)),
              kTolerance);
    EXPECT_LT(difference(folded.at(block + "attn.b_" + which),
                         raw.at(block + "attn.b_" + which) + at::einsum("hmd,m->hd", {W, b})),
              kTolerance);
  }
  const at::Tensor W_in = raw.at(block + "mlp.W_in");
  EXPECT_LT(difference(folded.at(block + "mlp.W_in"),
                       without_mean(W_in * raw.at(block + "ln2.w").view({-1, 1}), 0)),
            kTolerance);
  EXPECT_LT(difference(folded.at(block + "mlp.b_in"),
                       raw.at(block + "mlp.b_in") + raw.at(block + "ln2.b").matmul(W_in)),
            kTolerance);
  const at::Tensor W_U = raw.at("unembed.W_U");
  EXPECT_LT(difference(folded.at("unembed.W_U"), without_mean(W_U * raw.at("ln_final.w").view({-1, 1}), 0)),
            kTolerance);
  EXPECT_LT(difference(folded.at("unembed.b_U"), raw.at("unembed.b_U") + raw.at("ln_final.b").matmul(W_U)),
            kTolerance);
  EXPECT_TRUE(after.norm_folded);
  for (const char* name : {"blocks.0.ln1.w", "blocks.1.ln2.b", "ln_final.w"})
    EXPECT_FALSE(folded.contains(name));
}

TEST(FoldLn, RmsReadersAreScaledByTheOffsetGainAndNotCentered) {
  ModelConfig config = square_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.norm_offset = true;
  config.n_kv_heads = 1;
  const StateDict raw = reference::random_weights(config, 2);
  const auto [folded, after, report] = fold(raw, config);
  EXPECT_LT(difference(folded.at("blocks.0.attn._W_K"),
                       raw.at("blocks.0.attn._W_K") * (1.0 + raw.at("blocks.0.ln1.w")).view({1, -1, 1})),
            kTolerance);
  EXPECT_LT(difference(folded.at("blocks.0.attn._b_K"), raw.at("blocks.0.attn._b_K")), kTolerance);
  EXPECT_FALSE(after.norm_offset);
}

TEST(FoldLn, FinalRmsAfterLayerNormsIsNotCentered) {
  ModelConfig config = square_config();
  config.final_norm = NormKind::rms_norm;
  const StateDict raw = reference::random_weights(config, 3);
  const auto [folded, after, report] = fold(raw, config);
  EXPECT_LT(difference(folded.at("unembed.W_U"), raw.at("unembed.W_U") * raw.at("ln_final.w").view({-1, 1})),
            kTolerance);
}

TEST(FoldLn, NeuronNormFoldsIntoTheOutputOverTheNeurons) {
  ModelConfig config = square_config();
  config.activation = Activation::solu;
  config.mlp_norm = true;
  const StateDict raw = reference::random_weights(config, 4);
  const auto [folded, after, report] = fold(raw, config);
  const at::Tensor W_out = raw.at("blocks.0.mlp.W_out");
  EXPECT_LT(difference(folded.at("blocks.0.mlp.W_out"),
                       without_mean(W_out * raw.at("blocks.0.mlp.ln.w").view({-1, 1}), 0)),
            kTolerance);
  EXPECT_LT(difference(folded.at("blocks.0.mlp.b_out"),
                       raw.at("blocks.0.mlp.b_out") + raw.at("blocks.0.mlp.ln.b").matmul(W_out)),
            kTolerance);
}

TEST(FoldLn, BiasesComeIntoBeing) {
  ModelConfig config = square_config();
  config.mlp = MlpKind::gated;
  config.qkv_bias = config.mlp_bias = config.unembedding->bias = false;
  const StateDict raw = reference::random_weights(config, 5);
  const auto [folded, after, report] = fold(raw, config);
  EXPECT_TRUE(after.qkv_bias && after.mlp_bias && after.unembedding->bias);
  EXPECT_LT(difference(folded.at("blocks.0.mlp.b_gate"),
                       raw.at("blocks.0.ln2.b").matmul(raw.at("blocks.0.mlp.W_gate"))),
            kTolerance);
  EXPECT_EQ(folded.at("blocks.0.mlp.b_out").abs().max().item<double>(), 0.0);
}

TEST(FoldLn, BiasAfterTheProductMovesIntoTheOutputBias) {
  ModelConfig config = square_config();
  config.mlp = MlpKind::gated;
  config.gated_bias_after_product = true;
  const StateDict raw = reference::random_weights(config, 6);
  const auto [folded, after, report] = fold(raw, config);
  const auto of = [&](const std::string& name) { return raw.at("blocks.0." + name); };
  EXPECT_FALSE(after.gated_bias_after_product);
  EXPECT_LT(difference(folded.at("blocks.0.mlp.b_in"), of("ln2.b").matmul(of("mlp.W_in"))), kTolerance);
  EXPECT_LT(
      difference(folded.at("blocks.0.mlp.b_out"), of("mlp.b_out") + of("mlp.b_in").matmul(of("mlp.W_out"))),
      kTolerance);
}

TEST(FoldLn, RmsLeavesTheBiasAfterTheProduct) {
  ModelConfig config = square_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.mlp = MlpKind::gated;
  config.gated_bias_after_product = true;
  const auto [folded, after, report] = fold(reference::random_weights(config, 7), config);
  EXPECT_TRUE(after.gated_bias_after_product);
  EXPECT_FALSE(folded.contains("blocks.0.mlp.b_gate"));
}

TEST(FoldLn, ParallelBlockWithOneNormFoldsItIntoBothBranches) {
  ModelConfig config = square_config();
  config.layout = BlockLayout::parallel_one_norm;
  const StateDict raw = reference::random_weights(config, 8);
  const auto [folded, after, report] = fold(raw, config);
  EXPECT_LT(difference(folded.at("blocks.0.mlp.W_in"),
                       without_mean(raw.at("blocks.0.mlp.W_in") * raw.at("blocks.0.ln1.w").view({-1, 1}), 0)),
            kTolerance);
}

TEST(FoldLn, NormsOnOutputsStayAsStored) {
  ModelConfig config = square_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.norm_place = NormPlace::both;
  config.norm_offset = true;
  const StateDict raw = reference::random_weights(config, 9);
  const auto [folded, after, report] = fold(raw, config);
  EXPECT_TRUE(after.norm_offset);
  EXPECT_TRUE(folded.at("blocks.0.ln1_post.w").is_same(raw.at("blocks.0.ln1_post.w")));
  EXPECT_LT(log_probability_difference(raw, config, {folded, after, report}, 9), kLogProbabilityTolerance);
}

TEST(FoldLn, OfLayersWithNormsInTwoPlacesThoseBeforeSublayersFold) {
  ModelConfig config = square_config();
  config.norm_place = NormPlace::output;
  config.pre_norm_layers.assign(static_cast<std::size_t>(config.n_layers), false);
  config.pre_norm_layers.back() = true;
  const std::string pre = "blocks." + std::to_string(config.n_layers - 1);
  const StateDict raw = reference::random_weights(config, 11);
  const auto [folded, after, report] = fold(raw, config);
  EXPECT_TRUE(after.norm_folded);
  EXPECT_FALSE(folded.contains(pre + ".ln1.w"));
  EXPECT_TRUE(folded.at("blocks.0.ln1_post.w").is_same(raw.at("blocks.0.ln1_post.w")));
  EXPECT_TRUE(folded.at("blocks.0.attn.W_Q").is_same(raw.at("blocks.0.attn.W_Q")));
  EXPECT_LT(log_probability_difference(raw, config, {folded, after, report}, 11), kLogProbabilityTolerance);
}

TEST(FoldLn, TiedUnembeddingIsUntiedFirst) {
  ModelConfig config = square_config();
  config.unembedding->tied = true;
  const StateDict raw = reference::random_weights(config, 10);
  const auto [folded, after, report] = fold(raw, config);
  EXPECT_FALSE(after.tied_unembedding());
  EXPECT_TRUE(folded.at("embed.W_E").is_same(raw.at("embed.W_E")));
  EXPECT_LT(difference(folded.at("unembed.W_U"),
                       without_mean(raw.at("embed.W_E").t() * raw.at("ln_final.w").view({-1, 1}), 0)),
            kTolerance);
}

}  // namespace
}  // namespace hooked::fold_ln_test
