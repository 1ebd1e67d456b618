// What a temporary returns outlives it: a copy, or a handle on the same memory.

#include "hooked/engine/trainable_transformer.h"
#include "tests/support/tiny_model.h"

namespace hooked::temporaries_test {
namespace {

class Temporaries : public testing::Test {
 protected:
  CachedRun run() const { return model_.run_with_cache(tokens_, act::everything); }

  const HookedTransformer model_ = random_model();
  const at::Tensor tokens_ = random_tokens(model_.config(), {2, 5});
  const CachedRun kept_ = run();
};

TEST_F(Temporaries, OutputsOfARun) {
  const auto& logits = run().logits();
  const auto& loss = model_.run(tokens_, {.output = Output::loss}).loss();
  const auto& residual = model_.run(tokens_, {.output = Output::residual}).residual();
  const auto& metric =
      model_
          .run(tokens_, {.gradients = GradientRequest{.of = act::z(0), .metric = {[](const at::Tensor& of) {
                                                                         return of.sum();
                                                                       }}}})
          .metric();
  EXPECT_TRUE(at::equal(logits, kept_.logits()));
  EXPECT_TRUE(at::equal(loss, model_.run(tokens_, {.output = Output::loss}).loss()));
  const RunResult stream = model_.run(tokens_, {.output = Output::residual});
  EXPECT_TRUE(at::equal(residual, stream.residual()));
  EXPECT_NEAR(metric.item<double>(), logits.sum().item<double>(), 1e-10);

  const auto& positions = model_.run(tokens_, {.logit_positions = {{1, 3}}}).logit_positions();
  EXPECT_EQ(positions, std::vector<std::int64_t>({1, 3}));
  const auto& ids = model_.run(tokens_, {.logit_tokens = {{4, 2}}}).logit_tokens();
  EXPECT_EQ(ids, std::vector<std::int64_t>({4, 2}));
}

TEST_F(Temporaries, ActivationsOfACache) {
  const auto& z = run().cache[act::z(1)];
  const auto& entry = run().cache.entry(act::z(1).name());
  const auto& value = run().cache.entry(act::z(1).name()).value();
  const auto& columns = run().cache.tokens();
  EXPECT_TRUE(at::equal(z, kept_.cache[act::z(1)]));
  EXPECT_EQ(entry.name.to_string(), act::z(1).name().to_string());
  EXPECT_TRUE(at::equal(entry.value(), z));
  EXPECT_TRUE(at::equal(value, z));
  EXPECT_EQ(columns.value().end, 5);
  std::size_t entries = 0;
  for (const auto& each : run().cache) entries += each.value().defined();
  EXPECT_EQ(entries, kept_.cache.size());
}

TEST_F(Temporaries, PartsOfARun) {
  const auto [logits, cache] = run();
  EXPECT_TRUE(at::equal(logits, kept_.logits()));
  EXPECT_TRUE(at::equal(cache[act::z(1)], kept_.cache[act::z(1)]));
  auto [changed, own] = run();
  changed = at::Tensor();
  own = ActivationCache();
  const auto& [same, bound] = run();
  EXPECT_TRUE(at::equal(same, kept_.logits()));
  EXPECT_EQ(bound.size(), kept_.cache.size());
  const auto& taken = get<1>(run());
  const auto& first = get<0>(run());
  EXPECT_EQ(taken.size(), kept_.cache.size());
  EXPECT_TRUE(at::equal(first, kept_.logits()));
  EXPECT_EQ(&get<1>(kept_), &kept_.cache) << "what has a name is not copied";
}

TEST_F(Temporaries, WhatAModelKnows) {
  const auto& config = random_model().config();
  const auto& family = random_model().family();
  const auto& notes = random_model().notes();
  const auto& ignored = random_model().ignored_keys();
  const auto& placement = random_model().placement();
  EXPECT_EQ(config, model_.config());
  EXPECT_EQ(family, model_.family());
  EXPECT_EQ(notes, model_.notes());
  EXPECT_EQ(ignored, model_.ignored_keys());
  EXPECT_EQ(placement.entry(), model_.device());
  std::vector<ActivationName> names;
  for (const ActivationName& each : random_model().names()) names.push_back(each);
  EXPECT_EQ(names, model_.names());
  std::vector<std::string> outcomes, expected;
  for (const StepReport& step : random_model().processing()) outcomes.push_back(step.outcome);
  for (const StepReport& step : model_.processing()) expected.push_back(step.outcome);
  EXPECT_EQ(outcomes, expected);
  const auto& trained = TrainableTransformer::from(model_).config();
  EXPECT_EQ(trained, model_.config());
}

TEST_F(Temporaries, WeightsAndInputs) {
  const auto& weights = random_model().weights();
  EXPECT_TRUE(at::equal(weights.W_E(), model_.weights().W_E()));
  const auto& tokens = Input(tokens_).main_tokens();
  const auto& mask = Input(tokens_, {.attention_mask = tokens_}).main_mask();
  EXPECT_TRUE(at::equal(tokens, tokens_));
  EXPECT_TRUE(at::equal(mask, tokens_));
  const auto& columns =
      Prefix(*model_.run(tokens_, {.output = Output::none, .keep_prefix = true}).prefix).columns();
  EXPECT_TRUE(columns);
}

}  // namespace
}  // namespace hooked::temporaries_test
