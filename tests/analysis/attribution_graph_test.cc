// Attribution graphs: edges and constants add up to what targets read, on many models.
#include "hooked/analysis/attribution_graph.h"

#include "hooked/analysis/graph_pruning.h"
#include "tests/support/random_config.h"
#include "tests/support/random_dictionaries.h"
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
  for (const DictionaryKind& kind :
       {DictionaryKind{}, DictionaryKind{.skips = true}, DictionaryKind{.jumps = true},
        DictionaryKind{.crosses = true}, DictionaryKind{.skips = true, .crosses = true},
        DictionaryKind{.site = std::string(GetParam()) == "parallel_one_norm" ? "ln1.hook_normalized"
                                                                              : "ln2.hook_normalized"},
        DictionaryKind{.jumps = true, .negative = true}}) {
    for (const std::int64_t excluded : {0, 1, 2, 4}) {
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
      const auto is_negative = [](const GraphNode& node) {
        return node.kind == GraphNodeKind::feature && node.value < 0;
      };
      EXPECT_EQ(std::ranges::any_of(graph.nodes, is_negative), kind.negative) << kind.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Graph,
                         testing::Values("gpt2", "llama", "gemma2", "parallel", "parallel_one_norm"));

TEST(GraphOf, RandomModels) {
  const auto wanted = [](const ModelConfig& c) {
    return !c.has_encoder() && c.has_mlp() && c.has_unembedding() && !has_anywhere(c, Part::mlm_head) &&
           !has_anywhere(c, Part::delta_net) && !has_anywhere(c, Part::qkv_clip) &&
           !has_anywhere(c, Part::layer_input);
  };
  const int tried = for_random_configs(60, wanted, [](const ModelConfig& config) {
    const HookedTransformer model = random_model(config);
    const auto graph =
        attribute_graph(model, random_transcoders(config, {.skips = true, .site = "hook_mlp_in"}),
                        random_tokens(config, {1, 5}));
    EXPECT_LT(gap(graph), 1e-10);
  });
  EXPECT_GT(tried, 12);
}

TEST(GraphOf, NumbersThatAreNotFiniteIsRefused) {
  const HookedTransformer model = random_model();
  for (const bool decoder : {false, true}) {
    auto transcoders = random_transcoders(model.config(), {});
    DictionaryWeights weights = transcoders[1].weights();
    at::Tensor& wrong = decoder ? weights.W_dec : weights.W_enc;
    wrong = wrong.clone();
    wrong[0][0] = std::numeric_limits<double>::quiet_NaN();
    transcoders[1] = Dictionary(transcoders[1].config(), weights);
    EXPECT_THAT(text_thrown_by<ConfigError>([&] {
                  attribute_graph(model, transcoders, random_tokens(model.config(), {1, 6}));
                }),
                AllOf(HasSubstr("[blocks.1.hook_mlp_out]"),
                      HasSubstr(decoder ? "W_dec of the transcoder" : "W_enc of the transcoder")));
  }
}

TEST(GraphOf, ATargetTwiceIsRefused) {
  const HookedTransformer model = random_model();
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                attribute_graph(model, random_transcoders(model.config(), {}),
                                random_tokens(model.config(), {1, 6}), {.logit_tokens = {3, 4, 3}});
              }),
              HasSubstr("token 3 is there twice"));
}

TEST(GraphOf, NeuronsIsExact) {
  const ModelConfig config = of_kind("gpt2");
  const HookedTransformer model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {1, 6});
  for (const std::int64_t excluded : {0, 1}) {
    const auto graph =
        attribute_graph(model, GraphFeatures::neurons(), tokens, {.excluded_positions = excluded});
    EXPECT_EQ(graph.errors, 0);
    EXPECT_EQ(graph.features, 3 * config.d_mlp * (6 - excluded)) << "GELU is 0 nowhere";
    EXPECT_LT(gap(graph), 1e-10);
    const auto run = model.run_with_cache(tokens, "blocks.*.mlp.hook_pre,blocks.*.mlp.hook_post");
    for (std::int64_t i = 0; i < graph.features; i += 7) {
      const GraphNode& node = graph.nodes[static_cast<std::size_t>(i)];
      const auto layer = static_cast<std::int32_t>(node.layer);
      EXPECT_NEAR(node.value, run.cache[act::post(layer)][0][node.pos][node.id].item<double>(), 1e-12);
      EXPECT_NEAR(graph.preactivations[i].item<double>(),
                  run.cache[act::pre(layer)][0][node.pos][node.id].item<double>(), 1e-10);
    }
  }
}

TEST(GraphOf, ErrorsVanishWhereTranscodersAreExact) {
  ModelConfig config = of_kind("gpt2");
  config.activation = Activation::relu;
  const HookedTransformer model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {1, 6});
  std::vector<Dictionary> mlps;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const Dictionary some = random_transcoders(config, {})[static_cast<std::size_t>(layer)];
    DictionaryConfig c = some.config();
    c.features = config.d_mlp;
    DictionaryWeights w{};
    w.W_enc = model.weights().W_in(layer);
    w.b_enc = model.weights().b_in(layer);
    w.W_dec = model.weights().W_out(layer);
    w.b_dec = model.weights().b_out(layer);
    mlps.emplace_back(c, w);
  }
  const auto graph = attribute_graph(model, mlps, tokens);
  EXPECT_LT(largest(graph.edges.slice(1, graph.features, graph.features + graph.errors)), 1e-12);
  const auto neurons = attribute_graph(model, GraphFeatures::neurons(), tokens);
  ASSERT_EQ(neurons.features, graph.features);
  EXPECT_LT(largest(neurons.edges - at::cat({graph.edges.slice(1, 0, graph.features),
                                             graph.edges.slice(1, graph.features + graph.errors)},
                                            1)),
            1e-12);
  EXPECT_NEAR(graph_scores(neurons).replacement, 1.0, 1e-12);
}

TEST(GraphOf, StrongestIsRankedInBoundedMemory) {
  const HookedTransformer model = random_model(of_kind("gpt2"));
  const auto features = random_transcoders(model.config(), {});
  const at::Tensor tokens = random_tokens(model.config(), {1, 8});
  const AttributionGraphOptions plenty{.max_features = 20, .rank_every = 4, .batch = 4};
  const auto whole = attribute_graph(model, features, tokens, plenty);
  EXPECT_EQ(whole.features, 20);
  EXPECT_GT(whole.active, 100);
  EXPECT_THAT(whole.notes.back(), HasSubstr("active features are in the graph"));
  // With little memory the rows of all sources are not kept, and those of the graph are computed again.
  AttributionGraphOptions little = plenty;
  std::uint64_t least = 1 << 12;
  const auto fits = [&] {
    little.memory = least;
    try {
      attribute_graph(model, features, tokens, little);
      return true;
    } catch (const MemoryError& error) {
      EXPECT_THAT(error.what(), HasSubstr("it needs about"));
      return false;
    }
  };
  while (!fits()) least += least / 8;
  EXPECT_GT(least, 1u << 12) << "too little is refused";
  const auto same = attribute_graph(model, features, tokens, little);
  EXPECT_EQ(same.nodes, whole.nodes);
  EXPECT_LT(relative_difference(same.edges, whole.edges), 1e-10);
  // Edges between chosen features are those of the graph of all.
  const auto all = attribute_graph(model, features, tokens);
  std::vector<std::int64_t> place;
  for (std::int64_t i = 0; i < whole.features; ++i) {
    const auto found = std::ranges::find(all.nodes, whole.nodes[static_cast<std::size_t>(i)]);
    ASSERT_NE(found, all.nodes.end());
    place.push_back(found - all.nodes.begin());
  }
  for (std::int64_t t = 0; t < whole.features; ++t) {
    for (std::int64_t s = 0; s < whole.features; ++s)
      EXPECT_NEAR(whole.edge(s, t),
                  all.edge(place[static_cast<std::size_t>(s)], place[static_cast<std::size_t>(t)]), 1e-12);
  }
}

TEST(GraphOf, LogitsAreThoseAskedFor) {
  const HookedTransformer model = random_model(of_kind("gemma2"));
  const auto features = random_transcoders(model.config(), {});
  const at::Tensor tokens = random_tokens(model.config(), {1, 5});
  const at::Tensor probabilities = model(tokens).select(0, 0).select(0, -1).softmax(-1);
  const auto most = attribute_graph(model, features, tokens, {.desired_probability = 0.5});
  double sum = 0;
  for (std::int64_t i = most.logits; i > 0; --i) {
    const GraphNode& node = most.nodes[most.nodes.size() - static_cast<std::size_t>(i)];
    EXPECT_LT(sum, 0.5);
    sum += node.value;
    EXPECT_NEAR(node.value, probabilities[node.id].item<double>(), 1e-12);
  }
  EXPECT_GE(sum, 0.5);
  const at::Tensor direction = at::randn({8}, at::detail::createCPUGenerator(1), at::kDouble);
  const auto own = attribute_graph(
      model, features, tokens,
      {.logit_tokens = {4}, .directions = {{.text = "up", .direction = direction, .weight = 0.25}}});
  ASSERT_EQ(own.logits, 2);
  EXPECT_EQ(own.nodes.back().id, 11) << "the size of the vocabulary, and the first direction";
  EXPECT_EQ(own.nodes.back().text, "up");
  EXPECT_LT(gap(own), 1e-10);
  // Before the soft cap, minus the mean.
  const auto run = model.run(tokens, {.capture = act::unembed_out});
  const at::Tensor logits = run.cache[act::unembed_out].select(0, 0).select(0, -1);
  EXPECT_NEAR(own.preactivations[own.features].item<double>(), (logits[4] - logits.mean()).item<double>(),
              1e-10);
}

TEST(GraphOf, RefusesWhatItCannotDo) {
  const HookedTransformer model = random_model(of_kind("llama"));
  const auto features = random_transcoders(model.config(), {});
  const at::Tensor tokens = random_tokens(model.config(), {1, 5});
  const auto refusal = [&](const std::function<void()>& call) { return text_thrown_by<Error>(call); };
  EXPECT_THAT(refusal([&] { attribute_graph(model, GraphFeatures::neurons(), tokens); }),
              HasSubstr("gated MLP"));
  EXPECT_THAT(refusal([&] {
                attribute_graph(model, features, random_tokens(model.config(), {2, 5}));
              }),
              HasSubstr("one prompt"));
  EXPECT_THAT(refusal([&] {
                attribute_graph(model, {{features[0], features[0]}}, tokens);
              }),
              HasSubstr("two transcoders"));
  EXPECT_THAT(refusal([&] { attribute_graph(model, features, tokens, {.logit_tokens = {99}}); }),
              HasSubstr("no token 99"));
  EXPECT_THAT(refusal([&] { attribute_graph(model, features, tokens, {.desired_probability = 0}); }),
              HasSubstr("desired_probability"));
  EXPECT_THAT(refusal([&] { attribute_graph(random_model(two_stack_config()), features, tokens); }),
              HasSubstr("an encoder"));
  int calls = 0;
  const auto ended = attribute_graph(
      model, features, tokens, {.batch = 4, .watch = [&](const SweepProgress&) { return ++calls < 6; }});
  EXPECT_LT(ended.features, ended.active);
  EXPECT_THAT(ended.notes.back(), HasSubstr("was ended"));
}

TEST(GraphOf, LayersWithoutATranscoderAreErrors) {
  const HookedTransformer model = random_model(of_kind("gpt2"));
  const auto features = random_transcoders(model.config(), {});
  const auto graph =
      attribute_graph(model, {{features[0], features[2]}}, random_tokens(model.config(), {1, 6}));
  for (std::int64_t i = 0; i < graph.features; ++i)
    EXPECT_NE(graph.nodes[static_cast<std::size_t>(i)].layer, 1);
  EXPECT_LT(gap(graph), 1e-10);
  EXPECT_THAT(graph.notes.front(), HasSubstr("1 of 3 layers have no transcoder"));
}

}  // namespace
}  // namespace hooked::attribution_graph_test
