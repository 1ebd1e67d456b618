// The edges from each part add up to what gradients say of the part itself, in every family: over all golden
// checkpoints, in float64.

#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/edge_attribution.h"
#include "tests/support/golden_model.h"

namespace hooked::edge_families_test {
namespace {

class EdgesOfGolden : public testing::TestWithParam<GoldenCase> {
 protected:
  GoldenRun recorded_ = read_golden(GetParam());
  HookedTransformer model_ = load_golden(GetParam());

  /// The recorded prompts, or other tokens in the same places.
  Input input(std::int64_t moved = 0) const {
    const auto other = [&](const at::Tensor& tokens) {
      if (moved == 0 || !tokens.defined()) return tokens;
      return with_padding_of(GetParam(), tokens, (tokens + moved).remainder(model_.config().d_vocab));
    };
    return {other(recorded_.tokens),
            {.attention_mask = recorded_.attention_mask,
             .token_types = recorded_.token_types,
             .decoder = {.tokens = other(recorded_.decoder_tokens)}}};
  }
  /// A smooth number of everything that comes out of the model.
  Metric metric() const {
    if (model_.config().has_unembedding()) {
      return Metric([](const at::Tensor& logits) { return logits.sin().sum({1, 2}); }, {}, "sines");
    }
    const auto last = static_cast<std::int32_t>(model_.config().n_layers - 1);
    const bool normed = model_.config().norm_place == NormPlace::post;
    const Address end = normed ? act::normalized_resid_post(last) : act::resid_post(last);
    return Metric::of_activations(
        Selection(end),
        [end](const ActivationCache& run) {
          return run[end].sin().sum({1, 2});
        },
        "sines");
  }
};

TEST_P(EdgesOfGolden, AddUpToTheirWriters) {
  const SweepOptions sweep{
      .from = model_.run_with_cache(input(1), act::everything, {.output = Output::none}).cache,
      .into = input(),
      .metric = metric()};
  const ModelConfig& c = model_.config();
  if (c.short_conv || c.delta_net || c.gated_heads || c.shared_keys || c.layer_input) {
    EXPECT_THROW(edge_attribution(model_, {.sweep = sweep}), HookError);
    return;
  }
  for (const bool held : {false, true}) {
    const Grid edges = edge_attribution(model_, {.sweep = sweep, .hold = {.norms = held}});
    const at::Tensor of_writers = edges.values().nan_to_num(0.0).sum(-1);  // [(row,) writer]
    AttributionPatchingOptions nodes{.sweep = sweep, .hold = {.norms = held}};
    const GridAxis& writers = edges.axis("writer");
    std::vector<std::int64_t> in_blocks;
    for (std::size_t i = 0; i < writers.labels.size(); ++i) {
      // The embeddings are one sum after their own norm; blocks have the rest.
      if (row(writers.places[i]->name().site).scope != SiteScope::block) continue;
      nodes.sweep.table.push_back({*writers.places[i]});
      in_blocks.push_back(static_cast<std::int64_t>(i));
    }
    const at::Tensor expected = attribution_patching(model_, nodes).values();  // [(row,) node]
    const at::Tensor made = of_writers.index_select(-1, at::tensor(in_blocks, at::kLong));
    EXPECT_GT(largest_number(expected), 0);
    EXPECT_LE(largest_number(made - expected), 1e-9 * largest_number(expected))
        << (held ? "norms held" : "norms move");
  }
}

TEST_P(EdgesOfGolden, StretchesOfLayersGiveTheSame) {
  AttributionPatchingOptions options{.sweep = {.site = act::z,
                                               .over = {Axis::layer, Axis::head},
                                               .from = PatchSource::zero(),
                                               .into = input(),
                                               .metric = metric()},
                                     .layers_at_once = 1};
  const ModelConfig& c = model_.config();
  if (c.has_encoder() || !c.has_unembedding() || c.shared_keys || c.layer_input) {
    EXPECT_THROW(attribution_patching(model_, options), HookError);
    return;
  }
  const at::Tensor made = attribution_patching(model_, options).values();
  options.layers_at_once = 0;
  const at::Tensor expected = attribution_patching(model_, options).values();
  EXPECT_GT(largest_number(expected), 0);
  EXPECT_LE(largest_number(made - expected), 1e-10 * largest_number(expected));
}

INSTANTIATE_TEST_SUITE_P(Cases, EdgesOfGolden, testing::ValuesIn(golden_cases()), golden_test_name);

}  // namespace
}  // namespace hooked::edge_families_test
