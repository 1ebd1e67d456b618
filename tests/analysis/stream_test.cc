// The list of what happens to the residual stream, checked against the module graph: steps add up to what
// every point of the stream shows, and their points fire in their order.
#include "hooks/stream.h"

#include "analysis/stream/frozen_norm.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/reference/conversion.h"
#include "tests/reference/pairwise.h"
#include "tests/reference/random_weights.h"
#include "tests/support/golden_configs.h"
#include "tests/support/random_config.h"
#include "tests/support/test.h"

namespace hooked::stream_test {
namespace {

using Kind = StreamStep::Kind;

constexpr double kTolerance = 1e-9;
constexpr std::uint64_t kRandomConfigs = 100;

/// Every available config, with its name.
const std::map<std::string, ModelConfig>& configs() {
  static const auto all = [] {
    std::map<std::string, ModelConfig> made;
    for (const GoldenConfig& golden : golden_configs())
      made.emplace("golden " + golden.name, read_as(golden, golden.json).config);
    const auto& pairs = reference::pairwise_cover().cases;
    for (std::size_t i = 0; i < pairs.size(); ++i)
      made.emplace("pairs " + std::to_string(i) + ": " + reference::describe(pairs[i]), pairs[i].config);
    for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed)
      made.emplace("random " + std::to_string(seed), random_config(seed));
    return made;
  }();
  return all;
}

/// A model with random weights, and what it reads.
struct Subject {
  HookedTransformer model;
  Input input;

  static Subject of(ModelConfig config) {
    config.dtype = at::kDouble;
    const auto tokens = [&](std::int64_t columns, std::uint64_t seed) {
      return reference::to_tensor(reference::random_tokens(config, 2, columns, seed));
    };
    Input input(tokens(5, 1));
    if (config.has_encoder()) input.decoder.tokens = tokens(4, 2);
    return {HookedTransformer::from_state_dict(reference::random_weights(config, 3), config,
                                               {.dtype = at::kDouble}),
            input};
  }
};

class Stream : public testing::Test {
 protected:
  static void for_every_config(const std::function<void(const Subject&)>& check) {
    for (const auto& [name, config] : configs()) {
      SCOPED_TRACE(name);
      check(Subject::of(config));
      if (HasFailure()) return;
    }
  }
};

/// The stream as the steps compute it from what a run kept.
class Folded {
 public:
  Folded(const HookedTransformer& model, const ActivationCache& cache) : model_(model), cache_(cache) {}

  void pass(const StreamStep& step) {
    switch (step.kind) {
      case Kind::show:
        return expect(step.point, stream_);
      case Kind::write:
        stream_ = stream_.defined() ? stream_ + cache_[step.point] : cache_[step.point];
        return;
      case Kind::read:
        expect(step.point, stream_);
        for (const ActivationName& normalized : step.through) expect(normalized, divided(normalized));
        return;
      case Kind::norm: {
        const StreamNorm norm = stream_norm_at(model_, step.point);
        stream_ = divided(step.point);
        expect(step.point, stream_);
        if (norm.weight.defined()) stream_ = stream_ * norm.weight;
        if (norm.bias.defined()) stream_ = stream_ + norm.bias;
        return;
      }
      case Kind::scale:
        expect(step.point, stream_);
        stream_ = scale_of_stream(model_, step.block()).of(stream_);
    }
  }

 private:
  at::Tensor divided(const ActivationName& normalized) const {
    const StreamNorm norm = stream_norm_at(model_, normalized);
    return FrozenNorm{.centres = norm.centres(), .scale = cache_[norm.scale]}.of(stream_);
  }
  void expect(const ActivationName& point, const at::Tensor& value) const {
    if (!cache_.contains(point) || cache_[point].sizes() != value.sizes()) return;
    EXPECT_LT(relative_difference(cache_[point], value), kTolerance) << point.to_string();
  }

  const HookedTransformer& model_;
  const ActivationCache& cache_;
  at::Tensor stream_;
};

TEST_F(Stream, StepsAddUpToEveryPointOfIt) {
  std::int64_t shown = 0;
  for_every_config([&](const Subject& s) {
    const bool logits = s.model.config().has_unembedding();
    const ActivationCache cache =
        s.model
            .run_with_cache(s.input, act::everything, {.output = logits ? Output::logits : Output::residual})
            .cache;
    for (const Stack stack : stacks_of(s.model.config())) {
      Folded folded(s.model, cache);
      for (const StreamStep& step : stream_of(s.model.config(), stack)) {
        EXPECT_TRUE(step.kind == Kind::read || cache.contains(step.point)) << step.point.to_string();
        for (const ActivationName& normalized : step.through)
          EXPECT_TRUE(cache.contains(normalized)) << normalized.to_string();
        folded.pass(step);
        shown += step.kind == Kind::show ? 1 : 0;
      }
    }
  });
  EXPECT_GT(shown, 1000);
}

TEST_F(Stream, PointsFireInTheOrderOfTheSteps) {
  for_every_config([&](const Subject& s) {
    std::vector<ActivationName> listed, fired;
    std::vector<Hook> hooks;
    for (const Stack stack : stacks_of(s.model.config())) {
      for (const StreamStep& step : stream_of(s.model.config(), stack)) {
        // In parallel blocks both sublayers read before either writes, and fire in turn.
        const bool once = std::ranges::find(listed, step.point) == listed.end();
        if (step.kind == Kind::read || !once) continue;
        listed.push_back(step.point);
        hooks.emplace_back(step.point, [&fired, point = step.point](const at::Tensor& value) {
          fired.push_back(point);
          return value;
        });
      }
    }
    s.model.run(s.input, {.hooks = hooks, .output = Output::residual});
    EXPECT_EQ(fired, listed);
  });
}

// A point of the stream has the width of the stream: no other output of blocks is listed, and no point
// that a model shows before or after its blocks' sublayers is missing.
TEST_F(Stream, ShowsAllPointsOfTheStream) {
  for_every_config([&](const Subject& s) {
    std::vector<ActivationName> shown;
    for (const Stack stack : stacks_of(s.model.config())) {
      for (const StreamStep& step : stream_of(s.model.config(), stack)) {
        if (step.kind == Kind::show || step.kind == Kind::scale) shown.push_back(step.point);
      }
    }
    for (const ActivationName& name : s.model.names()) {
      const std::string_view word = row(name.site).word;
      const bool of_stream =
          word.starts_with("resid") || word.ends_with("resid_post") || word == "full_embed";
      EXPECT_EQ(of_stream, std::ranges::find(shown, name) != shown.end()) << name.to_string();
    }
  });
}

}  // namespace
}  // namespace hooked::stream_test
