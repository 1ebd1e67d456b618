
#include <random>

#include "tests/support/activations.h"
#include "tests/support/tiny_model.h"

namespace hooked::gradients_test {
namespace {

/// A smooth function of all logits of all positions, each with a weight of its own.
LogitMetric smooth_metric(const ModelConfig& config) {
  const at::Tensor weights = at::rand({1, 5, config.d_vocab_out()}, at::detail::createCPUGenerator(41),
                                      at::TensorOptions(at::kDouble)) -
                             0.5;
  return [weights](const at::Tensor& logits) { return (logits.tanh() * weights).sum(); };
}

/// Numerical gradients need a smooth model.
ModelConfig smooth_config(std::uint64_t seed) {
  ModelConfig config = random_double_config(seed);
  if (!is_smooth(config.activation)) config.activation = Activation::gelu;
  if (config.has_mlm_head() && !is_smooth(*config.unembedding->mlm_head))
    config.unembedding->mlm_head = Activation::gelu;
  config.eps = std::max(config.eps, 1e-5);
  return config;
}

double metric_with(const HookedTransformer& model, const at::Tensor& tokens, const LogitMetric& metric,
                   const ActivationName& name, const at::Tensor& value) {
  return metric(model.run_with_hooks(tokens, {{name, [&](const at::Tensor&) { return value; }}}).logits())
      .item<double>();
}

// Central differences through a hook against backpropagation: a few elements of every point of random models.
TEST(Gradients, EqualFiniteDifferencesAtEveryPoint) {
  std::mt19937 generator(5);
  int compared = 0, nonzero = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const ModelConfig config = smooth_config(seed);
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {1, 5});
    const LogitMetric metric = smooth_metric(config);
    const auto run = model.run(
        tokens, {.capture = act::everything, .gradients = GradientRequest{act::everything, metric}});
    EXPECT_NEAR(run.metric().item<double>(), metric(model(tokens)).item<double>(), 1e-10);
    const auto ids = std::count_if(run.cache.begin(), run.cache.end(), [](const auto& entry) {
      return entry.value().scalar_type() == at::kLong;
    });
    ASSERT_EQ(run.gradients.size() + static_cast<std::size_t>(ids), run.cache.size())
        << "only ids have no gradient";
    for (const auto& entry : run.gradients) {
      const at::Tensor value = run.cache[Address(entry.name)];
      ASSERT_EQ(entry.value().sizes(), value.sizes()) << entry.name.to_string();
      if (value.numel() == 0) continue;  // an expert without tokens
      for (int sample = 0; sample < 2; ++sample) {
        const std::int64_t place =
            static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(value.numel()));
        const double x = value.reshape({-1})[place].item<double>();
        if (std::isinf(x)) continue;  // masked scores stay masked
        const double step = 1e-5 * std::max(1.0, std::abs(x));
        const auto moved = [&](double by) {
          at::Tensor changed = value.clone(at::MemoryFormat::Contiguous);
          changed.view({-1})[place].add_(by);
          return metric_with(model, tokens, metric, entry.name, changed);
        };
        const double numerical = (moved(step) - moved(-step)) / (2.0 * step);
        const double got = entry.value().reshape({-1})[place].item<double>();
        EXPECT_NEAR(got, numerical, 2e-6 * std::max(1.0, std::abs(numerical)))
            << entry.name.to_string() << " at " << place;
        ++compared;
        nonzero += std::abs(got) > 1e-9;
      }
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(nonzero, compared / 3);
}

/// For a model in `dtype`, and the same numbers in float64: the gradients of `points` for a metric of the
/// last position.
void expect_gradients_near_float64(ModelConfig config, at::ScalarType dtype, double tolerance) {
  config.dtype = at::kDouble;
  const auto weights = random_weights(config);
  const at::Tensor tokens = random_tokens(config, {2, 5});
  const auto gradients_of = [&](at::ScalarType type, const Selection& points) {
    ModelConfig typed = config;
    typed.dtype = type;
    const auto model = model_of(weights, typed);
    const auto metric = [](const at::Tensor& logits) {
      return logits.select(1, -1).to(at::kDouble).tanh().sum();
    };
    return model.run(tokens, {.gradients = GradientRequest{points, {metric}}}).gradients;
  };
  const ActivationCache exact = gradients_of(at::kDouble, act::everything);
  // For all points, for those where only the stream is watched, and for the last one only.
  const auto last = static_cast<std::int32_t>(config.n_layers - 1);
  for (const Selection& points :
       {Selection(act::everything), Selection(act::resid_pre), Selection(act::resid_post(last))}) {
    for (const auto& entry : gradients_of(dtype, points)) {
      EXPECT_LT(relative_difference(entry.value(), exact[Address(entry.name)]), tolerance)
          << entry.name.to_string();
    }
  }
}

TEST(Gradients, OfFloat32EqualThoseOfFloat64) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = smooth_config(seed);
    if (config.experts) continue;  // rounding may choose another expert
    config.eps = std::max(config.eps, 1e-3);
    expect_gradients_near_float64(config, at::kFloat, 1e-3);
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

// Sizes that blocks accept, so that products, norms and activations use our own kernels.
TEST(Gradients, OfPackedModelsEqualThoseOfFloat64) {
  for (const bool gated : {false, true}) {
    ModelConfig config = small_config();
    config.d_model = 48;
    config.n_heads = 3;
    config.n_kv_heads = gated ? 1 : 3;
    config.d_head = 16;
    config.attn_scale = 4.0;
    config.d_mlp = 96;
    config.activation = Activation::gelu_tanh;
    if (gated) {
      config.norm = config.final_norm = NormKind::rms_norm;
      config.norm_bias = config.mlp_bias = config.qkv_bias = config.attn_out_bias = false;
      config.mlp = MlpKind::gated;
      config.activation = Activation::silu;
      config.positions = RotaryPositions{};
    }
    expect_gradients_near_float64(config, at::kFloat, 1e-4);
    expect_gradients_near_float64(config, at::kBFloat16, 0.1);
  }
}

class GradientRun : public testing::Test {
 protected:
  HookedTransformer model_ = random_model();
  at::Tensor tokens_ = random_tokens(model_.config(), {2, 5});
  LogitMetric metric_ = smooth_metric(model_.config());

  RunResult run(const Selection& of, RunOptions options = {}) const {
    options.gradients = GradientRequest{of, metric_};
    return model_.run(tokens_, options);
  }
};

TEST_F(GradientRun, GivesTheLogitsOfAPlainRun) {
  const auto gradients = run(act::resid_pre);
  EXPECT_LT(relative_difference(gradients.logits(), model_(tokens_)), kDoubleTolerance);
  EXPECT_FALSE(gradients.logits().requires_grad());
  EXPECT_EQ(gradients.gradients.size(), 3u);
  for (const auto& entry : gradients.gradients)
    EXPECT_FALSE(entry.value().requires_grad()) << entry.name.to_string();
  EXPECT_TRUE(at::equal(model_(tokens_), model_(tokens_)));
}

TEST_F(GradientRun, CachesHoldDetachedValues) {
  const auto result = run(act::resid_pre, {.capture = act::everything});
  for (const auto& entry : result.cache)
    EXPECT_FALSE(entry.value().requires_grad()) << entry.name.to_string();
}

// What one point gets does not depend on which others are asked for.
TEST_F(GradientRun, OfOnePointEqualsThatOfAll) {
  const auto all = run(act::everything);
  for (const auto& entry : all.gradients) {
    const auto one = run(entry.name);
    EXPECT_LT(relative_difference(one.gradients[Address(entry.name)], entry.value()), 1e-10)
        << entry.name.to_string();
  }
}

TEST_F(GradientRun, ZerosWhereTheMetricIsIndependent) {
  const LogitMetric first_position = [](const at::Tensor& logits) { return logits.select(1, 0).sum(); };
  const auto causal = model_.run(
      tokens_, {.gradients = GradientRequest{act::resid_pre(0) | act::resid_post(2), first_position}});
  const at::Tensor gradient = causal.gradients[act::resid_pre(0)];
  EXPECT_GT(gradient.select(1, 0).abs().max().item<double>(), 0.0);
  EXPECT_EQ(gradient.narrow(1, 1, 4).abs().max().item<double>(), 0.0);

  const LogitMetric constant = [](const at::Tensor& logits) { return at::ones({}, logits.options()); };
  const auto nothing = model_.run(tokens_, {.gradients = GradientRequest{act::defaults, constant}});
  EXPECT_GT(nothing.gradients.size(), 10u);
  for (const auto& entry : nothing.gradients)
    EXPECT_EQ(entry.value().abs().sum().item<double>(), 0.0) << entry.name.to_string();
}

TEST_F(GradientRun, BeforeAnEditThatCutsThePathIsZero) {
  const auto cut = run(act::resid_pre(0) | act::resid_pre(1), {.edits = {zero(act::resid_pre(1))}});
  EXPECT_EQ(cut.gradients[act::resid_pre(0)].abs().max().item<double>(), 0.0);
  EXPECT_GT(cut.gradients[act::resid_pre(1)].abs().max().item<double>(), 0.0) << "as downstream saw it";
}

TEST_F(GradientRun, FromAResidual) {
  const auto whole = run(act::resid_pre(2) | act::resid_pre(1), {.capture = act::resid_pre(1)});
  RunOptions options;
  options.gradients = GradientRequest{act::resid_pre(2) | act::resid_pre(1), metric_};
  const at::Tensor resid = whole.cache[act::resid_pre(1)];
  const auto piece = model_.run(Input::start_at_layer(1, resid), options);
  for (const int layer : {1, 2}) {
    EXPECT_LT(
        relative_difference(piece.gradients[act::resid_pre(layer)], whole.gradients[act::resid_pre(layer)]),
        1e-10);
  }
  EXPECT_FALSE(resid.requires_grad()) << "the caller's tensor became a leaf";
}

TEST_F(GradientRun, PositionsCutGradientsToo) {
  const auto whole = run(act::defaults);
  const auto cut = run(act::defaults, {.keep = {.positions = 3}});
  for (const auto& entry : cut.gradients) {
    const auto query = row(entry.name.site).axes.find(Axis::query);
    const std::int64_t dim = query ? *query : *row(entry.name.site).axes.find(Axis::pos);
    EXPECT_LT(relative_difference(entry.value(), whole.gradients[Address(entry.name)].narrow(dim, 3, 1)),
              1e-12)
        << entry.name.to_string();
  }
}

TEST_F(GradientRun, BadMetricsAreRefused) {
  const auto with = [&](LogitMetric metric) {
    return model_.run(tokens_, {.gradients = GradientRequest{act::z(0), std::move(metric)}});
  };
  EXPECT_THROW(with(LogitMetric()), HookError);
  EXPECT_THROW(with([](const at::Tensor& logits) { return logits; }), HookError);
  EXPECT_THROW(with([](const at::Tensor&) { return at::Tensor(); }), HookError);
  EXPECT_THROW(with([](const at::Tensor&) -> at::Tensor { throw 42; }), int);
  EXPECT_EQ(with([](const at::Tensor& logits) { return logits.sum().reshape({1, 1}); }).metric().dim(), 0);
}

// A function of activations: its change under a small change of an earlier activation.
TEST_F(GradientRun, OfActivationsEqualsFiniteDifferences) {
  const Address read = act::pattern(2), at = act::resid_pre(1);
  const auto score = [&](const at::Tensor& pattern) {
    const at::Tensor weights = at::arange(pattern.numel(), pattern.options()).sin().view(pattern.sizes());
    return (pattern * weights).sum();
  };
  const RunMetric metric{
      .reads = Selection(act::pattern(2)) | Selection(act::tokens),
      .function = [&](const at::Tensor&, const ActivationCache& run) { return score(run[read]); }};
  const auto made =
      model_.run(tokens_, {.capture = act::resid_pre(1),
                           .gradients = GradientRequest{.of = act::resid_pre(1), .of_run = metric}});
  EXPECT_EQ(made.gradients.size(), 1U) << "what is read has no gradient unless it is asked for";
  EXPECT_FALSE(made.cache.contains(read.name()));
  const at::Tensor value = made.cache[at], gradient = made.gradients[at];
  const auto with = [&](const at::Tensor& changed) {
    return score(model_.run(tokens_, {.edits = {set(at, changed)}, .capture = act::pattern(2)}).cache[read])
        .item<double>();
  };
  EXPECT_NEAR(made.metric().item<double>(), with(value), 1e-10);
  constexpr double kStep = 1e-5;
  for (const std::int64_t place : {0, 17, 40}) {
    const at::Tensor step = at::zeros_like(value);
    step.view({-1})[place] = kStep;
    EXPECT_NEAR(gradient.flatten()[place].item<double>(),
                (with(value + step) - with(value - step)) / (2 * kStep), 1e-7);
  }
}

// The stream where a run stops, times its gradient, gives the gradients before it.
TEST_F(GradientRun, StopsAtALayerWhereNoLogitsAreRead) {
  const auto whole = run(act::resid_pre(0) | act::resid_pre(2) | act::z(1));
  const RunMetric onwards{.reads = {}, .function = [&](const at::Tensor& stream, const ActivationCache&) {
                            return (stream * whole.gradients[act::resid_pre(2)]).sum();
                          }};
  const auto part = model_.run(
      tokens_, {.output = Output::none,
                .stop_at_layer = 2,
                .gradients = GradientRequest{.of = act::resid_pre(0) | act::z(1), .of_run = onwards}});
  for (const Address& place : {Address(act::resid_pre(0)), Address(act::z(1))})
    EXPECT_LT(relative_difference(part.gradients[place], whole.gradients[place]), 1e-10);
  EXPECT_THROW(model_.run(tokens_, {.stop_at_layer = 2, .gradients = GradientRequest{act::z(1), metric_}}),
               HookError);
}

TEST_F(GradientRun, TakesOneMetric) {
  const RunMetric nothing{
      .reads = {}, .function = [](const at::Tensor& logits, const ActivationCache&) { return logits.sum(); }};
  EXPECT_THROW(
      model_.run(tokens_,
                 {.gradients = GradientRequest{.of = act::z(0), .metric = metric_, .of_run = nothing}}),
      HookError);
  EXPECT_THROW(model_.run(tokens_, {.gradients = GradientRequest{.of = act::z(0)}}), HookError);
  EXPECT_THROW(model_.run(tokens_, {.gradients = GradientRequest{.of = act::z(0),
                                                                 .of_run = {.reads = act::pattern(9),
                                                                            .function = nothing.function}}}),
               HookError);
}

TEST_F(GradientRun, BackwardHooksSeeTheGradients) {
  std::map<std::string, at::Tensor> seen;
  const Hook hook(
      act::defaults,
      [&](const at::Tensor& g, const ActivationName& name) { seen[name.to_string()] = g.clone(); },
      HookDirection::backward);
  const auto result = run(act::defaults, {.hooks = {hook}});
  int compared = 0;
  for (const auto& entry : result.gradients) {
    const std::string name = entry.name.to_string();
    if (!seen.contains(name)) {
      EXPECT_EQ(entry.value().abs().max().item<double>(), 0.0)
          << name << " has a gradient and its hook was not called";
      continue;
    }
    EXPECT_TRUE(at::equal(seen[name], entry.value())) << name;
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

// A backward hook is called wherever it is, whichever other gradients are asked for.
TEST_F(GradientRun, BackwardHooksAreCalledBeforeTheFirstPointAskedFor) {
  int calls = 0;
  const Hook hook(
      act::resid_pre(0), [&](const at::Tensor&) { ++calls; }, HookDirection::backward);
  run(act::resid_post(2), {.hooks = {hook}});
  EXPECT_EQ(calls, 1);
  run({}, {.hooks = {hook}});
  EXPECT_EQ(calls, 2);
}

TEST_F(GradientRun, BackwardHooksChangeWhatFlowsBack) {
  const auto plain = run(act::resid_pre);
  const Hook doubling(
      act::resid_pre(1), [](const at::Tensor& g) { return g * 2.0; }, HookDirection::backward);
  const auto doubled = run(act::resid_pre, {.hooks = {doubling}});
  EXPECT_TRUE(at::equal(doubled.gradients[act::resid_pre(2)], plain.gradients[act::resid_pre(2)]));
  EXPECT_LT(
      relative_difference(doubled.gradients[act::resid_pre(0)], plain.gradients[act::resid_pre(0)] * 2.0),
      1e-12);
  EXPECT_TRUE(at::equal(doubled.logits(), plain.logits()));
  const Hook stopping(
      act::resid_pre(1), [](const at::Tensor& g) { return g * 0.0; }, HookDirection::backward);
  EXPECT_EQ(
      run(act::resid_pre(0), {.hooks = {stopping}}).gradients[act::resid_pre(0)].abs().max().item<double>(),
      0.0);
}

TEST_F(GradientRun, BackwardHooksResultsAreChecked) {
  const auto thrown = [&](auto function) {
    return text_thrown_by<HookError>(
        [&] { run(act::resid_pre(0), {.hooks = {Hook(act::z(1), function, HookDirection::backward)}}); });
  };
  const std::string shape =
      thrown([](const at::Tensor& g, const ActivationName&) { return g.narrow(0, 0, 1); });
  EXPECT_NE(shape.find("blocks.1.attn.hook_z"), std::string::npos) << shape;
  EXPECT_NE(thrown([](const at::Tensor& g, const ActivationName&) {
              return at::Tensor(g).zero_();
            }).find("in place"),
            std::string::npos);
  const Hook throwing(
      act::z(1), [](const at::Tensor&) { throw 42; }, HookDirection::backward);
  EXPECT_THROW(run(act::resid_pre(0), {.hooks = {throwing}}), int);
  EXPECT_NO_THROW(run(act::resid_pre(0)));
}

// Everything before the first point that is asked for is computed as in a plain run.
TEST_F(GradientRun, NothingIsRecordedBeforeTheFirstPointAskedFor) {
  std::map<std::string, bool> recorded;
  const Hook look(act::resid_pre | act::z | act::mlp_out,
                  [&](const at::Tensor& x, const ActivationName& name) -> std::optional<at::Tensor> {
                    recorded[name.to_string()] = x.requires_grad();
                    return std::nullopt;
                  });
  run(act::resid_post(1), {.hooks = {look}});
  EXPECT_FALSE(recorded.at("blocks.0.hook_resid_pre"));
  EXPECT_FALSE(recorded.at("blocks.0.attn.hook_z"));
  EXPECT_FALSE(recorded.at("blocks.1.hook_mlp_out"));
  EXPECT_TRUE(recorded.at("blocks.2.hook_resid_pre"));
  EXPECT_TRUE(recorded.at("blocks.2.attn.hook_z"));
}

TEST_F(GradientRun, TokensHaveNone) {
  EXPECT_TRUE(run(act::tokens).gradients.empty());
  const Hook everywhere(
      act::everything, [](const at::Tensor&) {}, HookDirection::backward);
  EXPECT_NO_THROW(run(act::resid_pre(0), {.hooks = {everywhere}}));
}

TEST_F(GradientRun, ScopedBackwardHook) {
  int calls = 0;
  HookedTransformer model = model_;
  const auto handle = model.hook(
      act::resid_pre(1), [&](const at::Tensor&) { ++calls; }, HookDirection::backward);
  model.run(tokens_, {.gradients = GradientRequest{act::resid_pre(0), metric_}});
  EXPECT_EQ(calls, 1);
}

// A metric may keep the logits and with them the graph; the run's hooks end with the run.
TEST(Gradients, BackwardHooksEndWithTheRun) {
  const HookedTransformer model = random_model(smooth_config(3));
  at::Tensor kept;
  int calls = 0;
  model.run(random_tokens(model.config(), {1, 4}),
            {.hooks = {Hook(
                 act::resid_pre(0), [&](const at::Tensor&) { ++calls; }, HookDirection::backward)},
             .gradients = GradientRequest{act::resid_pre(0), [&](const at::Tensor& logits) {
                                            kept = logits;
                                            return logits.sum();
                                          }}});
  EXPECT_EQ(calls, 1);
  try {
    kept.sum().backward();  // refused: the tensors of the first pass are freed
  } catch (const std::exception&) {
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace hooked::gradients_test
