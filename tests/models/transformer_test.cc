#include "models/transformer/transformer.h"

#include "tests/models/random_graph.h"

namespace hooked::transformer_test {
namespace {

constexpr std::uint64_t kRandomConfigs = 120;

class RandomTransformer : public testing::TestWithParam<at::ScalarType> {
 protected:
  double tolerance() const { return GetParam() == at::kDouble ? kDoubleTolerance : kFloatTolerance; }
  ModelConfig config(std::uint64_t seed) const {
    ModelConfig made = random_config(seed);
    made.dtype = GetParam();
    return made;
  }
};

INSTANTIATE_TEST_SUITE_P(Dtypes, RandomTransformer, testing::Values(at::kDouble, at::kFloat),
                         [](const auto& info) { return info.param == at::kDouble ? "float64" : "float32"; });

TEST_P(RandomTransformer, ResidualStreamAddsUpAtEveryLayer) {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) {
    const ModelConfig c = config(seed);
    if (c.norms_stream()) continue;
    SCOPED_TRACE(seed);
    const RandomGraph graph(c);
    const ActivationCache cache = graph.everything();
    at::Tensor sum = c.summed_embedding() ? cache[act::full_embed] : cache[act::embed];
    if (c.learned_positions() && !c.summed_embedding()) sum = sum + cache[act::pos_embed];
    for (int layer = 0; layer < c.n_layers; ++layer) {
      EXPECT_LT(relative_difference(cache[act::resid_pre(layer)], sum), tolerance()) << layer;
      sum = sum + cache[act::attn_out(layer)];
      if (c.has_mlp() && !c.parallel()) {
        EXPECT_LT(relative_difference(cache[act::resid_mid(layer)], sum), tolerance());
      }
      if (c.has_mlp()) sum = sum + cache[act::mlp_out(layer)];
      if (c.layer_input) {
        EXPECT_LT(relative_difference(cache[act::resid_mid_mlp(layer)], sum), tolerance()) << layer;
        sum = sum + cache[act::layer_input_out(layer)];
      }
      if (c.layer_scale) {
        EXPECT_LT(relative_difference(cache[act::resid_sum(layer)], sum), tolerance()) << layer;
        sum = sum * graph.weight("blocks." + std::to_string(layer) + ".resid_scale");
      }
      EXPECT_LT(relative_difference(cache[act::resid_post(layer)], sum), tolerance()) << layer;
    }
    ++checked;
  }
  EXPECT_GT(checked, 50);
}

TEST_P(RandomTransformer, PostNormStreamIsNormedSums) {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) {
    const ModelConfig c = config(seed);
    if (c.norm_place != NormPlace::post || !c.has_mlp()) continue;
    SCOPED_TRACE(seed);
    const RandomGraph graph(c);
    const ActivationCache cache = graph.everything();
    const auto normed = [&](const at::Tensor& x, const std::string& norm) {
      const at::Tensor centred = c.norm == NormKind::layer_norm ? x - x.mean(-1, true) : x;
      at::Tensor y = centred / (centred.square().mean(-1, true) + c.eps).sqrt();
      y = y * (graph.weight(norm + ".w") + (c.norm_offset ? 1.0 : 0.0));
      return c.norm == NormKind::layer_norm && c.norm_bias ? y + graph.weight(norm + ".b") : y;
    };
    for (int layer = 0; layer < c.n_layers; ++layer) {
      const std::string block = "blocks." + std::to_string(layer);
      const at::Tensor mid = cache[act::resid_pre(layer)] + cache[act::attn_out(layer)];
      EXPECT_LT(relative_difference(cache[act::resid_mid(layer)], mid), tolerance());
      const at::Tensor post = normed(mid, block + ".ln1") + cache[act::mlp_out(layer)];
      EXPECT_LT(relative_difference(cache[act::resid_post(layer)], post), tolerance());
      EXPECT_LT(relative_difference(cache[act::normalized_resid_post(layer)], normed(post, block + ".ln2")),
                tolerance());
    }
    EXPECT_TRUE(at::equal(cache[act::normalized_resid_post(0)], cache[act::resid_pre(1)]));
    if (!c.has_mlm_head()) {
      const at::Tensor last = cache[act::normalized_resid_post(1)] * c.unembedding->in_scale;
      EXPECT_TRUE(at::equal(last, cache[act::unembed_in]));
    }
    ++checked;
  }
  EXPECT_GT(checked, 5);
}

TEST_P(RandomTransformer, LogitsAreTheUnembeddedStream) {
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) {
    SCOPED_TRACE(seed);
    const ModelConfig c = config(seed);
    const RandomGraph graph(c);
    const auto [logits, cache] = graph.run(graph.tokens(), {.capture = act::everything});
    at::Tensor expected = cache[act::unembed_in].matmul(c.tied_unembedding() ? graph.weight("embed.W_E").t()
                                                                             : graph.weight("unembed.W_U"));
    if (c.unembedding->bias) expected = expected + graph.weight("unembed.b_U");
    expected = expected * c.unembedding->scale;
    EXPECT_LT(relative_difference(cache[act::unembed_out], expected), tolerance());
    if (c.unembedding->soft_cap > 0)
      expected = c.unembedding->soft_cap * (expected / c.unembedding->soft_cap).tanh();
    EXPECT_LT(relative_difference(logits, expected), tolerance());
  }
}

TEST_P(RandomTransformer, WatchingChangesNothingBeyondRounding) {
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) {
    SCOPED_TRACE(seed);
    const RandomGraph graph(config(seed));
    const at::Tensor plain = graph.run(graph.tokens(), {}).logits;
    EXPECT_LT(relative_difference(graph.run(graph.tokens(), {.capture = act::everything}).logits, plain),
              tolerance());
  }
}

// Shortformer positions reach queries and keys and never the stream (Press et al. 2021).
TEST(Transformer, ShortformerPositionsReachOnlyQueriesAndKeys) {
  ModelConfig c = graph_config();
  c.positions = ShortformerPositions{};
  const RandomGraph graph(c);
  const ActivationCache plain = graph.everything();
  EXPECT_TRUE(at::equal(plain[act::resid_pre(0)], plain[act::embed]));
  const ActivationCache moved =
      graph.run(graph.tokens(), {.capture = act::everything, .edits = {add(act::pos_embed, 1.0)}}).cache;
  EXPECT_TRUE(at::equal(moved[act::v(0)], plain[act::v(0)]));
  EXPECT_GT(relative_difference(moved[act::q(0)], plain[act::q(0)]), 0.1);
  EXPECT_GT(relative_difference(moved[act::k(1)], plain[act::k(1)]), 0.1);
}

TEST(Transformer, PaddingHasNoPositionEmbedding) {
  const RandomGraph graph(graph_config());
  at::Tensor mask = at::rand({2, 6}).ge(-1.0);
  mask[0].narrow(0, 0, 2).zero_();
  const at::Tensor positions =
      graph.run(graph.tokens(), {.capture = act::pos_embed, .attention_mask = mask}).cache[act::pos_embed];
  EXPECT_EQ(positions[0].narrow(0, 0, 2).abs().sum().item<double>(), 0.0);
  EXPECT_TRUE(at::equal(positions[0].narrow(0, 2, 4), graph.weight("pos_embed.W_pos").narrow(0, 0, 4)));
  EXPECT_TRUE(at::equal(positions[1], graph.weight("pos_embed.W_pos").narrow(0, 0, 6)));
}

TEST(Transformer, PointsDoNotAliasWeightsOrTokens) {
  const RandomGraph graph(graph_config());
  const at::Tensor tokens = graph.tokens();
  const ActivationCache cache = graph.run(tokens, {.capture = act::everything}).cache;
  for (const auto& entry : cache) {
    EXPECT_FALSE(entry.value().is_alias_of(tokens)) << entry.name.to_string();
    for (const auto& parameter : graph.graph.parameters()) {
      EXPECT_FALSE(entry.value().is_alias_of(parameter)) << entry.name.to_string();
    }
  }
}

}  // namespace
}  // namespace hooked::transformer_test
