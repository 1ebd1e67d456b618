// Graphs of circuit-tracer 0.5.0, of random models and transcoders: adjacency, which features are chosen when
// not all fit, what is pruned, and scores. tests/analysis/makers/attribution_graphs.py made them.
#include <fmt/format.h>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/analysis/graph_pruning.h"
#include "hooked/io/safetensors.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::graph_golden_test {
namespace {

constexpr std::int64_t kLayers = 2;

class CircuitTracer : public testing::TestWithParam<const char*> {
 protected:
  CircuitTracer()
      : all_(load_safetensors(std::string(HOOKED_SOURCE_DIR) +
                              "/tests/analysis/golden/circuit_tracer.safetensors")) {}

  at::Tensor golden(const std::string& name) const { return all_.at(fmt::format("{}.{}", GetParam(), name)); }

  /// A square over all nodes, of which the file has what is not 0; of a mask that is 1.
  at::Tensor square(const std::string& name, std::int64_t nodes) const {
    const at::Tensor places = golden(name + ".places").to(at::kLong);
    const auto values = all_.find(fmt::format("{}.{}.values", GetParam(), name));
    at::Tensor flat = at::zeros({nodes * nodes}, at::kDouble);
    flat.index_put_({places}, values == all_.end() ? at::ones(places.sizes(), at::kDouble) : values->second);
    return flat.view({nodes, nodes});
  }

  HookedTransformer model() const {
    ModelConfig config = tiny_config({.n_layers = kLayers,
                                      .d_model = 16,
                                      .n_ctx = 8,
                                      .n_heads = 3,
                                      .d_head = 5,
                                      .d_mlp = 20,
                                      .d_vocab = 20});
    StateDict weights;
    const std::string own = std::string(GetParam()) + ".";
    for (const auto& [name, value] : all_) {
      if (name.starts_with(own) && !name.starts_with(own + "graph") && !name.starts_with(own + "transcoders"))
        weights[name.substr(own.size())] = value;
    }
    return model_of(weights, config);
  }

  std::vector<Dictionary> transcoders() const {
    const bool crosses = std::string(GetParam()) == "cross";
    std::vector<Dictionary> made;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const auto weight = [&](const char* name) {
        return crosses ? golden(fmt::format("transcoders.{}", name))[layer]
                       : golden(fmt::format("transcoders.transcoders.{}.{}", layer, name));
      };
      DictionaryConfig c;
      c.d_in = c.d_out = 16;
      c.features = 24;
      c.dtype = at::kDouble;
      c.transcodes = true;
      c.crosses_layers = crosses;
      c.skips = std::string(GetParam()) == "skip";
      c.layer = layer;
      c.input = fmt::format("blocks.{}.mlp.hook_in", layer);
      c.output = fmt::format("blocks.{}.hook_mlp_out", layer);
      DictionaryWeights w{};
      w.W_enc = weight("W_enc").t().contiguous();
      w.b_enc = weight("b_enc");
      w.W_dec = crosses ? golden(fmt::format("transcoders.W_dec.{}", layer)) : weight("W_dec");
      w.b_dec = weight("b_dec");
      if (c.skips) w.W_skip = weight("W_skip");
      made.emplace_back(c, w);
    }
    return made;
  }

  /// The rows of targets and columns of sources of a matrix over all nodes.
  static at::Tensor cut(const at::Tensor& matrix, const AttributionGraph& graph) {
    const std::int64_t sources = graph.features + graph.errors + graph.tokens;
    return at::cat({matrix.slice(0, 0, graph.features), matrix.slice(0, sources)}).slice(1, 0, sources);
  }

  AttributionGraph graph(const std::string& which) const {
    AttributionGraphOptions options{.desired_probability = 0.9, .max_logits = 5, .rank_every = 3, .batch = 3};
    if (which == "some") options.max_features = 9;
    return attribute_graph(model(), transcoders(), all_.at("tokens"), options);
  }

  std::map<std::string, at::Tensor> all_;
};

TEST_P(CircuitTracer, HasTheSameGraph) {
  for (const std::string which : {"all", "some"}) {
    const AttributionGraph made = graph(which);
    const std::string at = "graph." + which + ".";
    const at::Tensor features = golden(at + "features"), logits = golden(at + "logits");
    ASSERT_EQ(made.features, features.size(0)) << which;
    ASSERT_EQ(made.logits, logits.size(0));
    for (std::int64_t i = 0; i < made.features; ++i) {
      const GraphNode& node = made.nodes[static_cast<std::size_t>(i)];
      EXPECT_TRUE(at::equal(features[i], at::tensor({node.layer, node.pos, node.id}, at::kLong)))
          << which << i;
    }
    for (std::int64_t i = 0; i < made.logits; ++i)
      EXPECT_EQ(made.nodes[static_cast<std::size_t>(made.target(made.features + i))].id,
                logits[i].item<std::int64_t>());
    EXPECT_LT(relative_difference(made.edges, cut(square(at + "adjacency", std::ssize(made.nodes)), made)),
              1e-10)
        << which;
    const GraphScores scores = graph_scores(made);
    EXPECT_NEAR(scores.replacement, golden(at + "scores")[0].item<double>(), 1e-6);
    EXPECT_NEAR(scores.completeness, golden(at + "scores")[1].item<double>(), 1e-6);
  }
}

TEST_P(CircuitTracer, PrunesTheSame) {
  for (const std::string which : {"all", "some"}) {
    const AttributionGraph whole = graph(which);
    for (const char* shares : {"0.8.0.98", "0.5.0.7", "0.0.0.0"}) {
      const std::string at = fmt::format("graph.{}.pruned.{}.", which, shares);
      const std::string text(shares);
      const GraphPruning how{.node_share = std::stod(text.substr(0, 3)),
                             .edge_share = std::stod(text.substr(4))};
      const AttributionGraph made = pruned(whole, how);
      const at::Tensor nodes = golden(at + "nodes"), influence = golden(at + "influence");
      std::vector<GraphNode> kept;
      std::vector<std::int64_t> columns, rows;
      for (std::int64_t i = 0; i < nodes.size(0); ++i) {
        if (nodes[i].item<int>() == 0) continue;
        kept.push_back(whole.nodes[static_cast<std::size_t>(i)]);
        const GraphNodeKind kind = kept.back().kind;
        if (kind != GraphNodeKind::logit) {
          columns.push_back(i);
          kept.back().influence = influence[i].item<double>();
        }
        if (kind == GraphNodeKind::logit || kind == GraphNodeKind::feature) rows.push_back(i);
      }
      ASSERT_EQ(made.nodes.size(), kept.size()) << at;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        if (kept[i].influence) {
          EXPECT_NEAR(*made.nodes[i].influence, *kept[i].influence, 1e-6);
          kept[i].influence = made.nodes[i].influence;
        }
        EXPECT_EQ(made.nodes[i], kept[i]) << at << i;
      }
      const at::Tensor edges = (square(at + "edges", nodes.size(0)) *
                                square(fmt::format("graph.{}.adjacency", which), nodes.size(0)))
                                   .index_select(0, at::tensor(rows, at::kLong))
                                   .index_select(1, at::tensor(columns, at::kLong));
      EXPECT_LT(relative_difference(made.edges, edges), 1e-10) << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CircuitTracer, testing::Values("plain", "skip", "cross"));

}  // namespace
}  // namespace hooked::graph_golden_test
