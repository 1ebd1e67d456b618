#include "hooked/analysis/feature_patching.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "hooked/dictionaries/dictionary.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/hooks/act.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::feature_patching_test {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kFeatures = 24;

at::Tensor numbers(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kDouble).mul(0.4);
}

DictionaryConfig config_at(const std::string& place, std::int64_t width = 16) {
  DictionaryConfig c;
  c.d_in = c.d_out = width;
  c.features = kFeatures;
  c.dtype = at::kDouble;
  c.input = c.output = place;
  return c;
}

Dictionary dictionary_of(const DictionaryConfig& c, std::uint64_t seed = 0) {
  return {c,
          {.W_enc = numbers({c.d_in, c.features}, seed + 1),
           .b_enc = numbers({c.features}, seed + 2) - 0.4,
           .W_dec = numbers({c.features, c.d_out}, seed + 3),
           .b_dec = numbers({c.d_out}, seed + 4)}};
}

Dictionary dictionary_at(const std::string& place, std::int64_t width = 16, std::uint64_t seed = 0) {
  return dictionary_of(config_at(place, width), seed);
}

std::int64_t feature_number(const std::string& label) { return std::stoll(label); }

const Metric kMetric = logit_difference(3, 7);
const Selection kNodes = act::defaults | act::sae_acts_post | act::sae_error | act::sae_output;

class FeatureEffects : public testing::Test {
 protected:
  ModelConfig config_ = two_layer_config();
  HookedTransformer plain_ = random_model(config_);
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);

  HookedTransformer spliced(const std::string& place, bool with_error = true) const {
    return plain_.with_dictionary(dictionary_at(place), {.with_error = with_error});
  }
  SweepOptions from_clean(const HookedTransformer& model) const {
    const Selection kept = model.dictionaries().empty() ? Selection(act::defaults) : kNodes;
    return {.from = model.run_with_cache(clean_, kept).cache, .into = corrupted_, .metric = kMetric};
  }
  double score(const RunResult& run) const {
    const at::Tensor last = run.logits()[0][-1];
    return (last[3] - last[7]).item<double>();
  }
};

TEST_F(FeatureEffects, OfFeaturesAndErrorAddUpToThatOfTheActivation) {
  struct Place {
    const char* name;
    SweptSite site;
    std::int64_t layer;
  };
  for (const Place& place :
       {Place{"blocks.0.hook_resid_post", act::resid_post, 0},
        Place{"blocks.1.hook_resid_post", act::resid_post, 1},
        Place{"blocks.0.hook_mlp_out", act::mlp_out, 0}, Place{"blocks.0.hook_attn_out", act::attn_out, 0}}) {
    SCOPED_TRACE(place.name);
    SweepOptions whole = from_clean(plain_);
    whole.site = place.site;
    whole.over = {{Axis::layer, {place.layer}}, Axis::pos};
    const at::Tensor expected = attribution_patching(plain_, {.sweep = whole}).values()[0];
    const auto model = spliced(place.name);
    const FeatureNodes nodes{.features = act::sae_acts_post(Address(place.name))};
    const Grid made = attribution_patching(model, nodes, {.sweep = from_clean(model)});
    EXPECT_GT(largest(expected), 1e-3);
    EXPECT_LT(largest(made.values().sum(1) - expected), 1e-10);
    EXPECT_EQ(made.axes()[0].name, "pos");
    EXPECT_EQ(made.axis("feature").labels.back(), "error");
  }
}

TEST_F(FeatureEffects, AreTheDecodersGradientByHand) {
  const Dictionary dictionary = dictionary_at("blocks.0.hook_resid_post");
  const auto model = plain_.with_dictionary(dictionary, {.with_error = true});
  const Address host = act::resid_post(0);
  // The score's gradient at the activation, and autograd from there through the decoder to codes and error.
  const auto plain = plain_.run(
      corrupted_, {.capture = host,
                   .gradients = GradientRequest{
                       .of = host, .metric = [](const at::Tensor& logits) {
                         return (logits.select(1, -1).select(1, 3) - logits.select(1, -1).select(1, 7)).sum();
                       }}});
  const at::Tensor x = plain.cache[host], there = plain_.run_with_cache(clean_).cache[host];
  at::Tensor codes = dictionary.encode(x).detach().requires_grad_();
  at::Tensor error = (x - dictionary.decode(codes, x)).detach().requires_grad_();
  const DictionaryWeights& w = dictionary.weights();
  (codes.matmul(w.W_dec) + w.b_dec + error).backward(plain.gradients[host]);
  const at::Tensor codes_there = dictionary.encode(there);
  const at::Tensor error_there = there - dictionary.decode(codes_there, there);
  const at::Tensor of_codes = ((codes_there - codes) * codes.grad()).detach()[0];
  const at::Tensor of_error = ((error_there - error) * error.grad()).sum(-1).detach()[0];
  const Grid made = attribution_patching(model, {.features = act::sae_acts_post(host), .all = true},
                                         {.sweep = from_clean(model)});
  EXPECT_EQ(made.values().sizes(), (std::vector<std::int64_t>{6, kFeatures + 1}));
  EXPECT_LT(largest(made.values().slice(1, 0, kFeatures) - of_codes), 1e-12);
  EXPECT_LT(largest(made.values().select(1, kFeatures) - of_error), 1e-12);
  // Unless all are asked for, those that are 0 in both runs are left out.
  const Grid active =
      attribution_patching(model, {.features = act::sae_acts_post(host)}, {.sweep = from_clean(model)});
  std::vector<std::string> labels;
  std::vector<std::int64_t> numbers;
  for (std::int64_t f = 0; f < kFeatures; ++f) {
    const bool fires =
        codes.select(2, f).ne(0).any().item<bool>() || codes_there.select(2, f).ne(0).any().item<bool>();
    if (!fires) continue;
    labels.push_back(std::to_string(f));
    numbers.push_back(f);
  }
  labels.push_back("error");
  numbers.push_back(kFeatures);
  EXPECT_LT(numbers.size(), static_cast<std::size_t>(kFeatures));
  EXPECT_EQ(active.axis("feature").labels, labels);
  EXPECT_LT(largest(active.values() - made.values().index_select(1, at::tensor(numbers, at::kLong))), 1e-15);
  const Grid some =
      attribution_patching(model, {.features = act::sae_acts_post(host), .which = {5, 2}, .errors = false},
                           {.sweep = from_clean(model)});
  EXPECT_THAT(some.axis("feature").labels, ElementsAre("5", "2"));
  EXPECT_LT(largest(some.values().select(1, 1) - of_codes.select(1, 2)), 1e-12);
}

// Without norms the logits are linear in the stream after the last block.
TEST_F(FeatureEffects, AreThoseOfPatchedRunsWhereTheModelIsLinear) {
  config_.norm = config_.final_norm = NormKind::none;
  plain_ = random_model(config_);
  const auto model = spliced("blocks.1.hook_resid_post");
  const FeatureNodes nodes{.features = act::sae_acts_post(act::resid_post(1))};
  const SweepReport exact = sweep_report(model, nodes, from_clean(model));
  const at::Tensor effects = exact.grid.values() - exact.unpatched.values().item<double>();
  const Grid made = attribution_patching(model, nodes, {.sweep = from_clean(model)});
  EXPECT_GT(largest(effects.select(1, -1)), 1e-3) << "errors differ";
  EXPECT_LT(largest(made.values() - effects), 1e-10);
  EXPECT_EQ(made.axis("feature").labels, exact.grid.axis("feature").labels);
}

TEST_F(FeatureEffects, IntegrateOverActivationsAndInputs) {
  const auto model = spliced("blocks.0.hook_mlp_out");
  const FeatureNodes nodes{.features = act::sae_acts_post(act::mlp_out(0)), .by_position = false};
  const SweepReport exact = sweep_report(model, nodes, from_clean(model));
  const at::Tensor effects = exact.grid.values() - exact.unpatched.values().item<double>();
  // The error is replaced whole, and alone: the integral is complete.
  const Grid made = attribution_patching(
      model, nodes,
      {.sweep = from_clean(model), .integration = {.over = IntegrateOver::activations, .steps = 64}});
  EXPECT_NEAR(made.values()[-1].item<double>(), effects[-1].item<double>(), 1e-3 * largest(effects));
  // Over inputs: the mean of gradients in runs between the two streams.
  constexpr std::int64_t kSteps = 3;
  const auto inputs = attribution_patching_report(
      model, nodes,
      {.sweep = from_clean(model), .integration = {.over = IntegrateOver::inputs, .steps = kSteps}});
  EXPECT_EQ(inputs.gradient_runs, kSteps);
  const Address codes = act::sae_acts_post(act::mlp_out(0)), begin = act::resid_pre(0);
  const auto here = model.run_with_cache(corrupted_, kNodes).cache,
             there = model.run_with_cache(clean_, kNodes).cache;
  at::Tensor mean;
  for (int i = 0; i < kSteps; ++i) {
    const double share = (i + 0.5) / kSteps;
    const auto run =
        model.run(corrupted_, {.edits = {set(begin, here[begin] + (there[begin] - here[begin]) * share)},
                               .gradients = GradientRequest{codes, kMetric}});
    const at::Tensor own = run.gradients[codes] / kSteps;
    mean = mean.defined() ? mean + own : own;
  }
  const at::Tensor expected = ((there[codes] - here[codes]) * mean).sum(1)[0];
  const GridAxis features = inputs.grid.axis("feature");
  for (std::size_t i = 0; i + 1 < features.labels.size(); ++i) {
    EXPECT_NEAR(inputs.grid.at({static_cast<std::int64_t>(i)}),
                expected[feature_number(features.labels[i])].item<double>(), 1e-12);
  }
}

TEST_F(FeatureEffects, OfErrorsAreZeroWithoutTheErrorTerm) {
  const auto model = spliced("blocks.0.hook_resid_post", /*with_error=*/false);
  const FeatureNodes nodes{.features = act::sae_acts_post(act::resid_post(0))};
  const Grid made = attribution_patching(model, nodes, {.sweep = from_clean(model)});
  EXPECT_LT(largest(made.values().select(1, -1)), 1e-15);
  EXPECT_GT(largest(made.values()), 1e-3);
}

TEST_F(FeatureEffects, HaveRowsMetricsAndAnEnd) {
  const auto model = spliced("blocks.0.hook_resid_post");
  const auto rows = random_tokens(config_, {3, 6});
  auto mask = at::ones({3, 6}, at::kLong);
  mask[1].slice(0, 4).zero_();
  const Input input{rows, {.attention_mask = mask}};
  SweepOptions options{
      .from = PatchSource::zero(), .into = input, .metric = {kMetric, logit_difference(1, 2)}};
  const FeatureNodes nodes{.features = act::sae_acts_post(act::resid_post(0))};
  const Grid made = attribution_patching(model, nodes, {.sweep = options});
  EXPECT_EQ(made.axes()[0].name, "metric");
  EXPECT_EQ(made.axes()[1].name, "row");
  EXPECT_EQ(made.axes()[2].name, "pos");
  EXPECT_EQ(made.axes()[3].name, "feature");
  const at::Tensor of_row = made.values()[0][1];
  EXPECT_TRUE(of_row.slice(0, 4).isnan().all().item<bool>()) << "padding";
  // A row by itself, at one place.
  options.over = {{Axis::batch, {2}}, {Axis::pos, {Position::last()}}};
  options.metric = kMetric;
  const Grid one = attribution_patching(model, {.features = nodes.features, .all = true}, {.sweep = options});
  EXPECT_EQ(one.values().sizes(), (std::vector<std::int64_t>{1, 1, kFeatures + 1}));
  const GridAxis features = made.axis("feature");
  for (std::size_t i = 0; i + 1 < features.labels.size(); ++i) {
    EXPECT_NEAR(one.values()[0][0][feature_number(features.labels[i])].item<double>(),
                made.values()[0][2][5][static_cast<std::int64_t>(i)].item<double>(), 1e-12);
  }
  options.over = {};
  options.progress = [](const SweepProgress&) { return false; };
  options.tokens_per_run = 6;
  EXPECT_FALSE(attribution_patching_report(model, nodes, {.sweep = options}).complete);
}

TEST_F(FeatureEffects, OfAblatingEachActiveFeature) {
  for (const char* place : {"blocks.0.hook_resid_post", "blocks.1.hook_mlp_out", "blocks.1.hook_attn_out"}) {
    SCOPED_TRACE(place);
    const auto model = spliced(place);
    const Address features = act::sae_acts_post(Address(place));
    const SweepReport made =
        sweep_report(model, {.features = features, .by_position = false, .errors = false},
                     {.from = PatchSource::zero(), .into = corrupted_, .metric = kMetric});
    const at::Tensor codes = model.run_with_cache(corrupted_, kNodes).cache[features];
    const GridAxis axis = made.grid.axis("feature");
    EXPECT_EQ(std::ssize(axis.labels), codes.flatten(0, 1).ne(0).any(0).sum().item<std::int64_t>());
    EXPECT_LE(made.runs, std::ssize(axis.labels));
    for (std::size_t i = 0; i < axis.labels.size(); ++i) {
      const auto edited =
          model.run(corrupted_, {.edits = {zero(features.feature(feature_number(axis.labels[i])))}});
      EXPECT_NEAR(made.grid.at({static_cast<std::int64_t>(i)}), score(edited), 1e-12);
    }
    // At single positions only those that are not 0 there are run.
    const SweepReport placed =
        sweep_report(model, {.features = features, .all = true, .errors = false},
                     {.from = PatchSource::zero(), .into = corrupted_, .metric = kMetric});
    EXPECT_LE(placed.runs, codes.ne(0).sum().item<std::int64_t>());
    for (std::int64_t pos = 0; pos < 6; ++pos) {
      for (std::int64_t f = 0; f < kFeatures; ++f) {
        const double expected =
            codes[0][pos][f].item<double>() == 0
                ? placed.unpatched.values().item<double>()
                : score(model.run(corrupted_, {.edits = {zero(features.feature(f).pos(pos))}}));
        EXPECT_NEAR(placed.grid.at({pos, f}), expected, 1e-12);
      }
    }
  }
}

TEST_F(FeatureEffects, InASweepOverASiteOfDictionaries) {
  const auto both =
      plain_.with_dictionary(dictionary_at("blocks.0.hook_mlp_out"), {.with_error = true})
          .with_dictionary(dictionary_at("blocks.1.hook_mlp_out", 16, 50), {.with_error = true});
  SweepOptions options = from_clean(both);
  options.site = act::sae_acts_post;
  options.over = {Axis::layer, Axis::pos, Axis::feature};
  const Grid made = sweep(both, options);
  EXPECT_EQ(made.axes()[2].name, "feature");
  const auto there = both.run_with_cache(clean_, kNodes).cache;
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    const Address features = act::sae_acts_post(act::mlp_out(layer));
    for (std::size_t i = 0; i < made.axis("feature").labels.size(); ++i) {
      const Address place = features.feature(feature_number(made.axis("feature").labels[i])).pos(4);
      const auto edited = both.run(corrupted_, {.edits = {set(place, there[place])}});
      EXPECT_NEAR(made.at({layer, 4, static_cast<std::int64_t>(i)}), score(edited), 1e-12);
    }
  }
  const Grid estimates = attribution_patching(both, {.sweep = options});
  EXPECT_EQ(estimates.axis("feature").labels, made.axis("feature").labels);
  // A layer without a dictionary has no numbers.
  const auto one = spliced("blocks.1.hook_mlp_out");
  options.from = PatchSource::zero();
  const Grid lacking = sweep(one, options);
  EXPECT_TRUE(lacking.values()[0].isnan().all().item<bool>());
  EXPECT_FALSE(lacking.values()[1].isnan().any().item<bool>());
  // Two kinds of places.
  const auto mixed = both.with_dictionary(dictionary_at("blocks.1.hook_resid_post"), {.with_error = true});
  EXPECT_THROW(sweep(mixed, options), HookError);
  options.site = SweptSite(act::sae_acts_post, act::resid_post);
  options.over = {{Axis::layer, {1}}, Axis::feature};
  EXPECT_NO_THROW(sweep(mixed, options));
  options.site = act::sae_error;
  EXPECT_THROW(sweep(both, options), HookError) << "errors have no features";
  options.site = act::sae_acts_post;
  EXPECT_THROW(sweep(plain_, options), HookError) << "no dictionary";
}

/// Patched runs begin where dictionaries have what they read.
TEST_F(FeatureEffects, InModelsWhoseDictionariesReadEarlierLayersOrTokens) {
  DictionaryConfig leaves_out = config_at("blocks.0.hook_resid_post");
  leaves_out.excluded.ids = {corrupted_[0][1].item<std::int64_t>()};
  const HookedTransformer models[] = {
      plain_.with_dictionaries(DictionarySet(random_transcoders(config_, {.crosses = true}))),
      plain_.with_dictionary(dictionary_of(leaves_out))};
  const Address features[] = {act::sae_acts_post(act::mlp_out(1)), act::sae_acts_post(act::resid_post(0))};
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    const HookedTransformer& model = models[i];
    const SweepReport made =
        sweep_report(model, {.features = features[i], .by_position = false, .errors = false},
                     {.from = PatchSource::zero(), .into = corrupted_, .metric = kMetric});
    for (std::size_t k = 0; k < made.grid.axis("feature").labels.size(); ++k) {
      const Address place = features[i].feature(feature_number(made.grid.axis("feature").labels[k]));
      EXPECT_NEAR(made.grid.at({static_cast<std::int64_t>(k)}),
                  score(model.run(corrupted_, {.edits = {zero(place)}})), 1e-12);
    }
    struct Swept {
      SweptSite site;
      std::function<Address(std::int32_t)> at;
    };
    for (const Swept& swept :
         {Swept{act::z, [](std::int32_t l) { return Address(act::z(l)); }},
          Swept{act::pattern, [](std::int32_t l) { return Address(act::pattern(l)); }},
          Swept{act::q, [](std::int32_t l) { return Address(act::q(l)); }},
          Swept{act::mlp_out, [](std::int32_t l) { return Address(act::mlp_out(l)); }},
          Swept{act::resid_pre, [](std::int32_t l) { return Address(act::resid_pre(l)); }}}) {
      const Grid grid = sweep(model, {.site = swept.site,
                                      .over = {Axis::layer},
                                      .from = PatchSource::zero(),
                                      .into = corrupted_,
                                      .metric = kMetric});
      for (std::int32_t layer = 0; layer < 2; ++layer) {
        EXPECT_NEAR(grid.at({layer}), score(model.run(corrupted_, {.edits = {zero(swept.at(layer))}})), 1e-12)
            << row(swept.site.site).word << layer;
      }
    }
  }
}

TEST_F(FeatureEffects, AreCheckedAndRefused) {
  const auto model = spliced("blocks.0.hook_resid_post");
  const FeatureNodes nodes{.features = act::sae_acts_post(act::resid_post(0))};
  const auto report = attribution_patching_report(model, nodes, {.sweep = from_clean(model), .check = 5});
  ASSERT_TRUE(report.check);
  EXPECT_EQ(report.check->cells.size(), 10U);
  EXPECT_GT(report.check->correlation, 0.5);
  EXPECT_THAT(report.grid.title(),
              testing::StartsWith("Attribution patching features of blocks.0.hook_resid_post with "));
  SweepOptions options = from_clean(model);
  options.site = act::z;
  EXPECT_THROW(sweep(model, nodes, options), HookError);
  options = from_clean(model);
  options.over = {Axis::layer};
  EXPECT_THROW(sweep(model, nodes, options), HookError);
  options.over = {Axis::pos};
  EXPECT_THROW(sweep(model, {.features = nodes.features, .by_position = false}, options), HookError);
  options.over = {};
  EXPECT_THROW(sweep(model, {.features = act::resid_post(0)}, options), HookError);
  EXPECT_THROW(sweep(plain_, nodes, from_clean(plain_)), HookError);
  EXPECT_THROW(sweep(model, {.features = nodes.features, .which = {kFeatures}}, options), HookError);
  options.from = plain_.run_with_cache(clean_).cache;
  EXPECT_THROW(sweep(model, nodes, options), HookError) << "the run did not keep features";
  EXPECT_THROW(sweep(plain_.with_dictionary(dictionary_at("hook_embed")),
                     {.features = act::sae_acts_post(act::embed)}, from_clean(model)),
               HookError);
}

}  // namespace
}  // namespace hooked::feature_patching_test
