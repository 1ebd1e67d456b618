// Features with other values, which edges predict, and edges split by heads.
#include "hooked/analysis/graph_interventions.h"

#include "tests/support/random_dictionaries.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::graph_interventions_test {
namespace {

ModelConfig gemma_config() {
  ModelConfig config = small_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.activation = Activation::silu;
  config.mlp = MlpKind::gated;
  config.n_kv_heads = 2;
  config.positions = RotaryPositions{};
  config.norm_offset = true;
  config.norm_place = NormPlace::both;
  return config;
}

struct Case {
  const char* name;
  ModelConfig config;
  DictionaryKind kind;
};

class Interventions : public testing::TestWithParam<Case> {
 protected:
  Interventions()
      : model_(random_model(GetParam().config)),
        features_(random_transcoders(model_.config(), GetParam().kind)),
        tokens_(random_tokens(model_.config(), {1, 6})),
        graph_(attribute_graph(model_, features_, tokens_)) {}

  HookedTransformer model_;
  GraphFeatures features_;
  at::Tensor tokens_;
  AttributionGraph graph_;
};

TEST_P(Interventions, EdgesPredictTheConstrainedChange) {
  for (std::int64_t source = 0; source < graph_.features; source += 5) {
    const GraphNode& node = graph_.nodes[static_cast<std::size_t>(source)];
    for (const double value : {0.0, 2.5}) {
      const InterventionEffect effect =
          intervene(model_, features_, tokens_, graph_, {{node.layer, node.pos, node.id, value}});
      const at::Tensor change =
          effect.preactivations.values().select(1, 1) - effect.preactivations.values().select(1, 0);
      const at::Tensor predicted = graph_.edges.select(1, source) * ((value - node.value) / node.value);
      EXPECT_LT(largest(change - predicted), 1e-10) << source << " " << value;
      EXPECT_LT(largest(effect.preactivations.values().select(1, 0) - graph_.preactivations), 1e-10);
    }
  }
}

TEST_P(Interventions, AGraphOfAnotherRunIsRefused) {
  const at::Tensor other = random_tokens(model_.config(), {1, 6}, 9);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { intervene(model_, features_, other, graph_, {}); }),
              HasSubstr("in the graph and not in the run; expected the graph of this model, prompt and"));
  const GraphFeatures others = random_transcoders(model_.config(), {.features = 23});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { intervene(model_, others, tokens_, graph_, {}); }),
              HasSubstr("in the run; expected the graph of this model, prompt and features"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { edge_heads(model_, features_, other, graph_, {}); }),
              HasSubstr("heads of a graph's edges"));
  const GraphNode& node = graph_.nodes.front();
  const FeatureIntervention change{node.layer, node.pos, node.id, 1};
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                intervene(model_, features_, tokens_, graph_, {change, change});
              }),
              HasSubstr("is changed twice"));
}

TEST_P(Interventions, SeveralChangesAddUp) {
  std::vector<FeatureIntervention> changes;
  at::Tensor predicted = at::zeros({graph_.edges.size(0)}, at::kDouble);
  for (std::int64_t source = 0; source < graph_.features; ++source) {
    const GraphNode& node = graph_.nodes[static_cast<std::size_t>(source)];
    changes.push_back({node.layer, node.pos, node.id, 0.0});
    predicted -= graph_.edges.select(1, source);
  }
  const InterventionEffect effect = intervene(model_, features_, tokens_, graph_, changes);
  const at::Tensor values = effect.preactivations.values();
  EXPECT_LT(largest(values.select(1, 1) - values.select(1, 0) - predicted), 1e-9);
  // Then targets read the errors, the tokens and constants alone.
  const at::Tensor rest = graph_.edges.slice(1, graph_.features).sum(1) + graph_.constants;
  EXPECT_LT(largest(values.select(1, 1) - rest), 1e-9);
}

TEST_P(Interventions, WithNothingHeldTheModelComputesOn) {
  if (GetParam().kind.crosses) GTEST_SKIP() << "a dictionary that crosses layers stands in no run by itself";
  const GraphNode& node = graph_.nodes.front();
  HookedTransformer spliced = model_;
  const Dictionary& dictionary = features_.transcoders()[static_cast<std::size_t>(node.layer)];
  spliced = spliced.with_dictionary(dictionary, {.with_error = true});
  const auto expected = spliced.run(
      tokens_, {.edits = set(act::sae_acts_post(act::mlp_out(static_cast<std::int32_t>(node.layer)))
                                 .pos(node.pos)
                                 .feature(node.id),
                             3.0)});
  const auto effect = intervene(model_, features_, tokens_, graph_, {{node.layer, node.pos, node.id, 3.0}},
                                GraphHold::nothing);
  EXPECT_LT(relative_difference(effect.logits, expected.logits().select(0, 0).select(0, -1)), 1e-10);
  const auto held = intervene(model_, features_, tokens_, graph_, {{node.layer, node.pos, node.id, 3.0}},
                              GraphHold::patterns);
  EXPECT_GT(relative_difference(held.logits, effect.logits), 1e-6) << "patterns change";
}

TEST_P(Interventions, EdgesAreTheSumsOfTheirHeads) {
  std::vector<GraphEdge> edges;
  const std::int64_t first_logit = std::ssize(graph_.nodes) - graph_.logits;
  const std::int64_t first_token = graph_.features + graph_.errors;
  for (const std::int64_t source : {std::int64_t{0}, graph_.features + 8, first_token + 2})
    edges.push_back({source, first_logit});
  edges.push_back({first_token + 1, graph_.features - 1});
  const Grid parts = edge_heads(model_, features_, tokens_, graph_, edges);
  const std::int64_t heads = model_.config().n_heads;
  ASSERT_EQ(parts.values().sizes(), (std::vector<std::int64_t>{4, 3, heads + 1}));
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const double whole = graph_.edge(edges[i].source, edges[i].target);
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      const at::Tensor own = parts.values()[static_cast<std::int64_t>(i)][layer];
      EXPECT_NEAR(own.sum().item<double>(), whole, 1e-10) << i << " " << layer;
    }
  }
  // From another position to the last, heads carry something; and after the last position's own they need
  // not.
  EXPECT_GT(largest(parts.values()[2].slice(1, 0, heads)), 1e-6);
  const GraphNode& target = graph_.nodes[static_cast<std::size_t>(graph_.features - 1)];
  if (target.layer == 1) {
    EXPECT_EQ(largest(parts.values()[3][2].slice(0, 0, heads)), 0.0)
        << "no head after a target carries its edges";
  }
}

TEST_P(Interventions, OneHeadIsThatOfAModelWithoutTheOthers) {
  const std::int64_t token = graph_.features + graph_.errors + 2,
                     logit = std::ssize(graph_.nodes) - graph_.logits;
  const Grid parts = edge_heads(model_, features_, tokens_, graph_, {{token, logit}});
  // With the heads of layer 1 but one cut off where they write, constrained: the head's part and the bypass
  // stay.
  const GraphNode& node = graph_.nodes[static_cast<std::size_t>(token)];
  EXPECT_EQ(node.kind, GraphNodeKind::token);
  const at::Tensor own = parts.values()[0][1];
  const double bypass = own[own.size(0) - 1].item<double>();
  double carried = 0;
  for (std::int64_t head = 0; head < own.size(0) - 1; ++head) carried += own[head].item<double>();
  EXPECT_NEAR(carried + bypass, graph_.edge(token, logit), 1e-10);
  EXPECT_GT(std::abs(carried), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Interventions,
                         testing::Values(Case{"gpt2", small_config(), {}},
                                         Case{"gpt2_skip", small_config(), {.skips = true}},
                                         Case{"gemma2", gemma_config(), {}},
                                         Case{"gpt2_cross", small_config(), {.crosses = true}}),
                         named);

TEST(InterventionsOf, RefuseWhatIsNotThere) {
  const HookedTransformer model = random_model();
  const auto features = random_transcoders(model.config(), {});
  const at::Tensor tokens = random_tokens(model.config(), {1, 6});
  const AttributionGraph graph = attribute_graph(model, features, tokens, {.max_features = 3});
  EXPECT_THROW(intervene(model, features, tokens, graph, {{3, 1, 0, 0.0}}), ShapeError);
  EXPECT_THROW(intervene(model, features, tokens, graph, {{0, 6, 0, 0.0}}), ShapeError);
  EXPECT_THROW(intervene(model, features, tokens, graph, {{0, 1, 20, 0.0}}), ShapeError);
  EXPECT_THROW(edge_heads(model, features, tokens, graph, {{0, 0 + graph.features}}), ShapeError);
}

}  // namespace
}  // namespace hooked::graph_interventions_test
