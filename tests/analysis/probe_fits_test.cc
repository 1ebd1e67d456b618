// Probes of activations, fitted from caches and from streams of runs.
#include "hooked/analysis/probe_fits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "hooked/analysis/row_intervals.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::probe_fits_test {
namespace {

double cosine(const at::Tensor& a, const at::Tensor& b) {
  return (a.dot(b) / (a.norm() * b.norm())).item<double>();
}

/// Activations of two layers, of which the second has a direction along which the classes differ.
struct Planted {
  explicit Planted(std::int64_t rows = 6000, double strength = 1.0) {
    const auto generator = at::detail::createCPUGenerator(11);
    labels = at::randint(2, {rows}, generator, at::kLong);
    direction = at::randn({16}, generator, at::kDouble);
    direction = direction / direction.norm();
    cache.set_tokens({.first = 0, .end = 1});
    for (const int layer : {0, 1}) {
      at::Tensor x = at::randn({rows, 1, 16}, generator, at::kDouble) + 20;
      if (layer == 1) x = x + (labels * 2 - 1).view({-1, 1, 1}) * direction * strength;
      cache.insert({.name = act::resid_post(layer).name(), .held = x});
    }
    cache = cache.assigned_to(model);
  }
  HookedTransformer model = random_model([] {
    auto config = two_layer_config();
    config.dtype = at::kDouble;
    return config;
  }());
  ActivationCache cache = ActivationCache(2);
  at::Tensor labels, direction;
};

TEST(FitProbes, FindsThePlantedDirection) {
  const Planted p;
  for (const ProbeMethod method : {ProbeMethod::ridge, ProbeMethod::logistic, ProbeMethod::mean_difference}) {
    const auto report = fit_probes(p.model, p.cache, p.labels, {.method = method, .held_out = 0.5});
    ASSERT_EQ(report.probes.size(), 2U);
    EXPECT_GT(cosine(report.probes[1].direction(), p.direction), 0.99);
    EXPECT_LT(std::abs(cosine(report.probes[0].direction(), p.direction)), 0.9);
    // Two normal distributions, 2 apart: 84.1 % of each are on its side.
    EXPECT_NEAR(report.accuracy.at({1, 0}), 0.841, 0.02);
    EXPECT_NEAR(report.accuracy.at({0, 0}), 0.5, 0.04);
    EXPECT_NEAR(report.largest_class, 0.5, 0.05);
    // The class is read from rows that the probe has not seen.
    const at::Tensor held = at::tensor(report.held_out, at::kLong);
    const at::Tensor said = report.probes[1].fit.classes_of(p.cache[act::resid_post(1)].select(1, 0));
    const at::Tensor right = said.eq(p.labels).to(at::kDouble).index_select(0, held);
    EXPECT_TRUE(at::equal(right, report.correct.slice("pos", 0).slice("layer", 1).values()));
    EXPECT_EQ(right.mean().item<double>(), report.accuracy.at({1, 0}));
    EXPECT_EQ(report.probes[1].facts.held_out_accuracy, report.accuracy.at({1, 0}));
    const auto& interval = report.accuracy.interval();
    ASSERT_TRUE(interval);
    EXPECT_NEAR(interval->low[1][0].item<double>(), report.accuracy.at({1, 0}) - 0.0136, 0.001);
    EXPECT_NEAR(interval->high[1][0].item<double>(), report.accuracy.at({1, 0}) + 0.0127, 0.001);
  }
}

TEST(FitProbes, HoldsOutRowsOfEachClassByASeed) {
  const Planted p(101);
  const at::Tensor labels = at::arange(101, at::kLong).ge(90).to(at::kLong);  // 90 and 11
  const auto held = [&](std::uint64_t seed) {
    return fit_probes(p.model, p.cache, labels, {.method = ProbeMethod::ridge, .seed = seed}).held_out;
  };
  const auto one = held(1);
  EXPECT_EQ(one.size(), 18U + 2U) << "a fifth of each class";
  EXPECT_EQ(std::ranges::count_if(one, [](std::int64_t row) { return row >= 90; }), 2);
  EXPECT_EQ(std::set(one.begin(), one.end()).size(), one.size());
  EXPECT_EQ(one, held(1));
  EXPECT_NE(one, held(2));
  const auto none = fit_probes(p.model, p.cache, labels, {.method = ProbeMethod::ridge, .held_out = 0});
  EXPECT_TRUE(none.held_out.empty());
  EXPECT_TRUE(std::isnan(none.accuracy.at({0, 0})));
  EXPECT_EQ(none.probes[0].facts.rows, 101);
}

TEST(FitProbes, SparseProbesReadTheFeaturesThatDiffer) {
  Planted p;
  at::Tensor x = p.cache[act::resid_post(1)].clone();
  x.select(2, 5).add_(p.labels.unsqueeze(1) * 4);
  p.cache.insert({.name = act::resid_post(1).name(), .held = x});
  for (const ProbeMethod method : {ProbeMethod::ridge, ProbeMethod::logistic, ProbeMethod::mean_difference}) {
    const auto report = fit_probes(p.model, p.cache, p.labels, {.method = method, .sparse = 1});
    const at::Tensor weight = report.probes[1].fit.weight[0];
    EXPECT_EQ(weight.ne(0).sum().item<std::int64_t>(), 1);
    EXPECT_GT(weight[5].item<double>(), 0);
    EXPECT_GT(report.accuracy.at({1, 0}), 0.9);
  }
}

/// A model and an input of more rows than one run takes.
struct Streamed {
  HookedTransformer model = random_model([] {
    auto config = two_layer_config();
    config.dtype = at::kDouble;
    return config;
  }());
  at::Tensor tokens = random_tokens(model.config(), {150, 12});
  at::Tensor labels = tokens.select(1, -1) % 3;
};

TEST(FitProbes, OfAStreamAreThoseOfACache) {
  const Streamed s;
  const auto cache = s.model.run_with_cache(s.tokens, act::everything).cache;
  for (const ProbeMethod method : {ProbeMethod::ridge, ProbeMethod::logistic, ProbeMethod::mean_difference}) {
    ProbeOptions options{.at = {.of = act::resid_post | act::z, .positions = {Position::last(), 3}},
                         .method = method,
                         .penalty = 0.5,
                         .standardize = method != ProbeMethod::mean_difference};
    const auto kept = fit_probes(s.model, cache, s.labels, options);
    std::int64_t calls = 0, last = 0;
    // A place at a time: as many passes as places.
    options.at.most_bytes = method == ProbeMethod::logistic ? 150 * 16 * 8 : 12000;
    options.at.progress = [&](const SweepProgress& progress) {
      ++calls;
      EXPECT_GE(progress.done, last);
      last = progress.done;
      return true;
    };
    const auto streamed = fit_probes(s.model, s.tokens, s.labels, options);
    EXPECT_GT(calls, 10);
    ASSERT_EQ(streamed.probes.size(), (2U + 8U) * 2U) << "two layers, four heads each, two positions";
    for (std::size_t i = 0; i < kept.probes.size(); ++i) {
      const Probe &one = kept.probes[i], &other = streamed.probes[i];
      EXPECT_LT((one.fit.weight - other.fit.weight).abs().max().item<double>(), 1e-7);
      EXPECT_EQ(one.place, other.place);
      EXPECT_EQ(one.position, other.position);
    }
    EXPECT_EQ(streamed.accuracy.axis("point").labels[1], streamed.probes[2].place.to_string());
    EXPECT_LT((kept.accuracy.values() - streamed.accuracy.values()).abs().max().item<double>(), 1e-12);
  }
  // And those of the function, of the same rows.
  const auto report = fit_probes(s.model, cache, s.labels, {.held_out = 0});
  const LinearFit own = logistic_regression(cache[act::resid_post(0)].select(1, -1), s.labels);
  EXPECT_LT((own.weight - report.probes[0].fit.weight).abs().max().item<double>(), 1e-12);
}

TEST(FitProbes, CanBeEndedAndRefuse) {
  const Streamed s;
  const auto ended = fit_probes(s.model, s.tokens, s.labels,
                                {.at = {.progress = [](const SweepProgress&) { return false; }}});
  EXPECT_FALSE(ended.complete);
  EXPECT_TRUE(ended.probes.empty());
  EXPECT_THAT(text_thrown_by<MemoryError>(
                  [&] { fit_probes(s.model, s.tokens, s.labels, {.at = {.most_bytes = 1000}}); }),
              AllOf(HasSubstr("expected at most 1000 bytes"), HasSubstr("raise most_bytes")));
  EXPECT_THAT(text_thrown_by<HookError>(
                  [&] { fit_probes(s.model, s.tokens, s.labels, {.at = {.of = act::pattern}}); }),
              HasSubstr("has no vector at each position"));
  EXPECT_THAT(
      text_thrown_by<ShapeError>([&] { fit_probes(s.model, s.tokens, s.labels, {.at = {.positions = {}}}); }),
      HasSubstr("no position is given"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { fit_probes(s.model, s.tokens, s.labels * 0); }),
              HasSubstr("all 150 rows are of class 0"));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { fit_probes(s.model, s.tokens, s.labels, {.held_out = 1}); }),
              HasSubstr("held_out is a share"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                fit_probes(s.model, s.tokens, s.labels, {.classes = {"a", "b"}});
              }),
              HasSubstr("expected 3, got 2"));
  // A number that is not finite is named by its row, wherever it is in the stream.
  const auto hook = [&](const at::Tensor& x) {
    return x.masked_fill(
        at::zeros({x.size(0), 1, 1}, at::kBool).index_fill_(0, at::tensor({1}, at::kLong), true), NAN);
  };
  EXPECT_THAT(
      text_thrown_by<ShapeError>([&] {
        fit_probes(s.model, s.tokens, s.labels, {.at = {.run = {.hooks = {act::resid_post, hook}}}});
      }),
      AllOf(HasSubstr("blocks.0.hook_resid_post of row 1 at position last"), HasSubstr("not finite")));
}

TEST(Components, OfAStreamAreThoseOfAllRows) {
  const Streamed s;
  const auto cache = s.model.run_with_cache(s.tokens, act::resid_post).cache;
  const auto report = fit_components(s.model, s.tokens, 3);
  ASSERT_EQ(report.probes.size(), 2U);
  const at::Tensor x = cache[act::resid_post(1)].select(1, -1);
  const Components all = principal_components(x, 3);
  EXPECT_LT((report.probes[1].fit.weight - all.vectors).abs().max().item<double>(), 1e-7);
  EXPECT_LT((report.share.slice("layer", 1).slice("pos", 0).values() - all.share).abs().max().item<double>(),
            1e-9);
  EXPECT_LT(
      (report.probes[1].fit.scores(x) - (x - all.mean).matmul(all.vectors.t())).abs().max().item<double>(),
      1e-6);
}

TEST(ContrastDirections, AreThoseOfThePairs) {
  const Streamed s;
  const at::Tensor other = random_tokens(s.model.config(), {150, 12}, 9);
  const auto report = contrast_directions(s.model, s.tokens, other, 2);
  const at::Tensor
      a = s.model.run_with_cache(s.tokens, act::resid_post).cache[act::resid_post(0)].select(1, -1),
      b = s.model.run_with_cache(other, act::resid_post).cache[act::resid_post(0)].select(1, -1);
  EXPECT_LT((report.means[0].fit.weight[0] - contrast_mean(a, b)).abs().max().item<double>(), 1e-9);
  const Components own = contrast_components(a, b, 2);
  EXPECT_LT((report.components[0].fit.weight - own.vectors).abs().max().item<double>(), 1e-6);
  EXPECT_LT((report.share.slice("layer", 0).slice("pos", 0).values() - own.share).abs().max().item<double>(),
            1e-9);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { contrast_directions(s.model, s.tokens, other.slice(0, 1)); }),
              HasSubstr("expected 150 rows twice, got 149"));
}

Probe some_probe(const Streamed& s, ProbeMethod method = ProbeMethod::logistic) {
  return fit_probes(s.model, s.tokens, s.labels, {.method = method, .classes = {"a", "b", "c"}}).probes[1];
}

TEST(Probe, SteersAndIsMeasured) {
  const Streamed s;
  const Probe probe = some_probe(s);
  const Metric along = probe.measure(Position::last(), 2), output = probe.score(Position::last(), 2);
  const at::Tensor before = along.score(s.model, s.tokens);
  const at::Tensor after = along.score(s.model, s.tokens, {.edits = probe.steer(s.model, 3.5, 2)});
  EXPECT_LT((after - before - 3.5).abs().max().item<double>(), 1e-9);
  const at::Tensor x =
      s.model.run_with_cache(s.tokens, act::resid_post).cache[act::resid_post(1)].select(1, -1);
  EXPECT_LT((output.score(s.model, s.tokens) - probe.fit.scores(x).select(1, 2)).abs().max().item<double>(),
            1e-9);
  // Only at the block.
  const auto first = probe.steer(s.model, 1, 0, probe.place.pos(0));
  EXPECT_LT((along.score(s.model, s.tokens, {.edits = first}) - before).abs().max().item<double>(), 1e-12);
  EXPECT_THAT(text_thrown_by<HookError>([&] { probe.steer(s.model, 1, 0, act::resid_post(0)); }),
              HasSubstr("the probe is of another activation"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { probe.direction(3); }), HasSubstr("expected 0 to 2"));
}

TEST(Probe, ProjectsOutAllThatItReads) {
  const Streamed s;
  const Probe probe = some_probe(s);
  const auto edits = probe.project_out(s.model);
  EXPECT_EQ(edits.size(), 2U) << "the weights of three classes add up to 0";
  const auto run = s.model.run(s.tokens, {.edits = edits, .capture = {act::resid_post(1)}});
  const at::Tensor left = run.cache[act::resid_post(1)].matmul(probe.fit.weight.t());
  EXPECT_LT(left.abs().max().item<double>(), 1e-9);
}

TEST(Probe, BelongsToItsModel) {
  const Streamed s;
  const Probe probe = some_probe(s);
  auto config = two_layer_config();
  config.dtype = at::kDouble;
  const HookedTransformer processed =
      HookedTransformer::from_state_dict(random_weights(config), config, {.dtype = at::kDouble});
  EXPECT_THAT(text_thrown_by<HookError>([&] { probe.steer(processed, 1); }),
              AllOf(HasSubstr("fitted to another model"), HasSubstr("processing: no step there, fold_ln")));
  EXPECT_THAT(text_thrown_by<HookError>([&] { processed.run(s.tokens, {.edits = probe.steer(s.model, 1)}); }),
              HasSubstr("another model"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { probe.measure().score(processed, s.tokens); }),
              HasSubstr("made for the model of fingerprint"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { probe.score().score(processed, s.tokens); }),
              HasSubstr("assigned_to()"));
  const Probe meant = probe.assigned_to(processed);
  EXPECT_NO_THROW(meant.measure().score(processed, s.tokens));
  EXPECT_NO_THROW(processed.run(s.tokens, {.edits = meant.steer(processed, 1)}));
  EXPECT_THAT(text_thrown_by<HookError>([&] { probe.assigned_to(random_model()); }),
              HasSubstr("expected vectors of 8, got 16"));
}

TEST(Probe, IsSavedBitForBit) {
  const Streamed s;
  const TempFolder folder;
  const Probe probe = some_probe(s);
  probe.save(folder / "p.safetensors");
  const Probe again = Probe::load(folder / "p.safetensors");
  EXPECT_TRUE(at::equal(again.fit.weight, probe.fit.weight));
  EXPECT_TRUE(at::equal(again.fit.intercept, probe.fit.intercept));
  EXPECT_EQ(again.classes, probe.classes);
  EXPECT_EQ(again.place, probe.place);
  EXPECT_EQ(again.position, "last");
  EXPECT_EQ(again.origin.fingerprint, s.model.identity()->fingerprint);
  EXPECT_EQ(again.origin.processing, probe.origin.processing);
  EXPECT_EQ(again.facts.method, "logistic");
  EXPECT_EQ(again.facts.held_out_accuracy, probe.facts.held_out_accuracy);
  EXPECT_EQ(again.facts.rows, probe.facts.rows);
  EXPECT_NO_THROW(s.model.run(s.tokens, {.edits = again.steer(s.model, 1)}));
  probe.save(folder / "p.safetensors");  // its own file is replaced
  s.model.run_with_cache(s.tokens, act::resid_post).cache.save(folder / "cache.safetensors");
  EXPECT_THAT(text_thrown_by<IoError>([&] { probe.save(folder / "cache.safetensors"); }), HasSubstr("cache"));
  EXPECT_THAT(text_thrown_by<IoError>([&] { probe.save(folder / "p.pt"); }), HasSubstr(".safetensors"));
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { Probe::load(folder / "cache.safetensors"); }),
              HasSubstr("holds no probe"));
}

}  // namespace
}  // namespace hooked::probe_fits_test
