// Weight processing of encoder-decoders: every step leaves what both stacks compute unchanged.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/reference/option_table.h"
#include "tests/support/relative_difference.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::two_stack_processing_test {
namespace {

constexpr double kTolerance = 1e-10;  // float64, nats

// Every number is random: no bias is zero and no gain is one.
StateDict random_two_stack_weights(const ModelConfig& config, std::uint64_t seed) {
  StateDict weights = HookedTransformer::create(config, {.seed = seed}).state_dict();
  auto generator = at::detail::createCPUGenerator(seed + 1);
  for (auto& [name, weight] : weights) {
    weight = weight + at::rand(weight.sizes(), generator, weight.options()) * 0.6 - 0.3;
  }
  return weights;
}

// Log-probabilities.
at::Tensor output_of(const HookedTransformer& model, std::uint64_t seed) {
  const Input input(random_tokens(model.config(), {2, 5}, seed),
                    {.decoder = {.tokens = random_tokens(model.config(), {2, 4}, seed + 1)}});
  return at::log_softmax(model.run(input).logits(), -1);
}

bool applies(ProcessingStep step, const ModelConfig& config) {
  try {
    return plan_processing(config, WeightProcessing::only({step}))[static_cast<std::size_t>(step)].outcome ==
           "applied";
  } catch (const ConfigError&) {  // it would change the function
    return false;
  }
}

TEST(TwoStackProcessing, EveryStepPreservesTheFunction) {
  std::map<ProcessingStep, int> applied;
  std::uint64_t seed = 0;
  for (ModelConfig config : reference::two_stack_configs()) {
    SCOPED_TRACE(++seed);
    if (!config.has_unembedding()) continue;
    config.dtype = at::kDouble;
    const StateDict weights = random_two_stack_weights(config, seed);
    const at::Tensor raw = output_of(
        HookedTransformer::from_state_dict(weights, config, {.processing = WeightProcessing::none()}), seed);
    for (const ProcessingStep step : kProcessingSteps) {
      if (!applies(step, config)) continue;
      ++applied[step];
      const auto model =
          HookedTransformer::from_state_dict(weights, config, {.processing = WeightProcessing::only({step})});
      EXPECT_LT(relative_difference(output_of(model, seed), raw), kTolerance) << processing_step_name(step);
    }
    const auto all = HookedTransformer::from_state_dict(weights, config);
    EXPECT_LT(relative_difference(output_of(all, seed), raw), kTolerance);
  }
  for (const ProcessingStep step : kProcessingSteps) {
    EXPECT_GE(applied[step], 4) << processing_step_name(step);
  }
}

TEST(TwoStackProcessing, AProcessedModelIsSavedAndLoadedAsItIs) {
  ModelConfig config = reference::two_stack_configs().front();
  config.norm_folded = false;
  config.dtype = at::kDouble;
  const auto model = HookedTransformer::from_state_dict(random_two_stack_weights(config, 3), config);
  EXPECT_TRUE(model.config().norm_folded);
  const TempFolder folder;
  model.save(folder.path());
  const auto loaded = HookedTransformer::load(folder.path().string());
  EXPECT_EQ(loaded.config(), model.config());
  EXPECT_TRUE(at::equal(output_of(loaded, 3), output_of(model, 3)));
}

}  // namespace
}  // namespace hooked::two_stack_processing_test
