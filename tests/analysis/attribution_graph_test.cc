// Attribution graphs: edges and constants add up to what targets read, on many models.
#include "hooked/analysis/attribution_graph.h"

#include "tests/analysis/graph_dictionaries.h"
#include "tests/support/random_config.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::attribution_graph_test {
namespace {

/// The largest difference between pre-activations and the sums of edges and constants.
double gap(const AttributionGraph& graph) {
  return largest(graph.edges.sum(1).to(at::kDouble) + graph.constants - graph.preactivations) /
         std::max(1.0, largest(graph.preactivations));
}

ModelConfig of_kind(const std::string& kind) {
  ModelConfig config = small_config();
  config.dtype = at::kDouble;
  if (kind == "gpt2") return config;
  if (kind == "parallel") {
    config.layout = BlockLayout::parallel_two_norms;
    return config;
  }
  if (kind == "parallel_one_norm") {
    config.layout = BlockLayout::parallel_one_norm;
    return config;
  }
  config.norm = config.final_norm = NormKind::rms_norm;
  config.mlp = MlpKind::gated;
  config.activation = Activation::silu;
  config.n_kv_heads = 2;
  config.positions = RotaryPositions{};
  if (kind == "gemma2") {
    config.norm_offset = true;
    config.norm_place = NormPlace::both;
    config.score_soft_cap = 20;
    config.unembedding->soft_cap = 15;
  }
  return config;
}

class Graph : public testing::TestWithParam<const char*> {
 protected:
  Graph() : model_(random_model(of_kind(GetParam()))), tokens_(random_tokens(model_.config(), {1, 6})) {}

  HookedTransformer model_;
  at::Tensor tokens_;
};

TEST_P(Graph, EdgesAndConstantAddUpToThePreactivation) {
  for (const DictionaryKind kind : {DictionaryKind{}, DictionaryKind{.skips = true},
                                    DictionaryKind{.jumps = true}, DictionaryKind{.crosses = true},
                                    DictionaryKind{.skips = true, .crosses = true}}) {
    for (const std::int64_t excluded : {0, 1, 2}) {
      const auto graph = attribute_graph(model_, random_transcoders(model_.config(), kind), tokens_,
                                         {.batch = 7, .excluded_positions = excluded});
      ASSERT_EQ(graph.features, graph.active);
      EXPECT_GT(graph.features, 10);
      EXPECT_EQ(graph.errors, 3 * 6);
      EXPECT_LT(gap(graph), 1e-10) << kind.text() << excluded;
      for (std::int64_t node = 0; node < graph.features; ++node) {
        EXPECT_GE(graph.nodes[static_cast<std::size_t>(node)].pos, excluded);
        const double value = graph.nodes[static_cast<std::size_t>(node)].value;
        EXPECT_NEAR(graph.preactivations[node].item<double>(), value, 1e-10) << "active features are linear";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Graph, testing::Values("gpt2", "llama", "gemma2", "parallel", "parallel_one_norm"));

}  // namespace
}  // namespace hooked::attribution_graph_test
