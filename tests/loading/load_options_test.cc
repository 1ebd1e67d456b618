#include "hooked/loading/load_options.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "hooked/core/error.h"
#include "tests/support/random_config.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"
#include "tests/support/tiny_model.h"

namespace hooked::load_options_test {
namespace {

const LoadOptions kRaw{.dtype = at::kDouble, .processing = WeightProcessing::none()};

HookedTransformer made(StateDict weights, const LoadOptions& options = kRaw) {
  return HookedTransformer::from_state_dict(std::move(weights), small_config(), options);
}

TEST(FromStateDict, MissingTensorsAreAllListed) {
  StateDict weights = random_weights(small_config());
  weights.erase("blocks.1.attn.W_Q");
  weights.erase("unembed.b_U");
  const std::string text = text_thrown_by<CheckpointError>([&] { made(weights); });
  for (const char* part : {"2 tensors", "blocks.1.attn.W_Q", "unembed.b_U"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_THROW(made({}), CheckpointError);
}

TEST(LoadProgress, CountsTheBytesOfTheModel) {
  const auto check = [](const LoadOptions& base,
                        const std::function<HookedTransformer(const LoadOptions&)>& load) {
    std::vector<std::uint64_t> seen;
    std::uint64_t whole = 0;
    LoadOptions options = base;
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      seen.push_back(done);
      EXPECT_TRUE(whole == 0 || whole == total);
      whole = total;
    };
    const HookedTransformer model = load(options);
    ASSERT_FALSE(seen.empty());
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(seen.back(), whole);
    std::uint64_t bytes = 0;
    for (const auto& [name, weight] : model.state_dict()) bytes += weight.nbytes();
    EXPECT_EQ(whole, bytes);
    const std::size_t weights = model.state_dict().size();
    if (options.threads == 1) {
      EXPECT_EQ(seen.size(), weights) << "once for each";
    } else {
      EXPECT_LE(seen.size(), weights) << "what other threads did is counted with the next of ours";
    }
  };
  const auto of_weights = [](const LoadOptions& options) {
    return made(random_weights(small_config()), options);
  };
  const TempFolder folder;
  HookedTransformer::create(small_config(), {.seed = 1}).save(folder / "m");
  const auto of_folder = [&](const LoadOptions& options) {
    return HookedTransformer::load((folder / "m").string(), options);
  };
  for (const int threads : {1, 2}) {
    const auto raw = WeightProcessing::none(), processed = WeightProcessing::all_that_apply();
    check({.dtype = at::kDouble, .processing = raw, .threads = threads}, of_weights);
    check({.processing = processed, .threads = threads}, of_weights);
    check({.threads = threads}, of_folder);
  }
}

TEST(LoadProgress, WhatItThrowsEndsTheLoading) {
  LoadOptions options = kRaw;
  options.progress = [](std::uint64_t, std::uint64_t) { throw 7; };
  EXPECT_THROW(made(random_weights(small_config()), options), int);
}

TEST(FromStateDict, ExtraTensorsAreNoted) {
  StateDict weights = random_weights(small_config());
  weights["blocks.1.attn.W_X"] = at::zeros({3}, at::kDouble);
  weights["blocks.0.attn.mask"] = at::ones({10, 10}, at::kBool);
  weights["blocks.0.attn.IGNORE"] = at::zeros({}, at::kDouble);
  const HookedTransformer model = made(weights);
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_NE(model.notes()[0].find("blocks.1.attn.W_X"), std::string::npos) << model.notes()[0];
  EXPECT_EQ(model.notes()[0].find("mask"), std::string::npos) << "known buffers need no note";
}

TEST(FromStateDict, MisshapenTensorsNameBothShapesAndATranspositionIsRecognised) {
  StateDict weights = random_weights(small_config());
  weights["blocks.2.mlp.W_in"] = weights["blocks.2.mlp.W_in"].t().contiguous();
  const std::string turned = text_thrown_by<CheckpointError>([&] { made(weights); });
  for (const char* part : {"blocks.2.mlp.W_in", "[8, 12]", "[12, 8]", "transposed"})
    EXPECT_NE(turned.find(part), std::string::npos) << turned;
  weights["blocks.2.mlp.W_in"] = at::zeros({8, 13}, at::kDouble);
  const std::string other = text_thrown_by<CheckpointError>([&] { made(weights); });
  EXPECT_NE(other.find("[8, 13]"), std::string::npos) << other;
  EXPECT_EQ(other.find("transposed"), std::string::npos) << other;
}

TEST(FromStateDict, TensorsOfMixedDtypesAreConverted) {
  const StateDict exact = random_weights(small_config());
  StateDict mixed;
  bool single = false;
  for (const auto& [name, value] : exact) {
    // bfloat16 numbers are exact in each of these dtypes but float16.
    const at::Tensor rounded = value.to(at::kBFloat16);
    mixed[name] = single ? rounded : rounded.to(at::kFloat);
    single = !single;
  }
  StateDict uniform;
  for (const auto& [name, value] : mixed) uniform[name] = value.to(at::kDouble);
  const at::Tensor tokens = random_tokens(small_config(), {2, 6});
  EXPECT_TRUE(at::equal(made(mixed)(tokens), made(uniform)(tokens)));
}

TEST(FromStateDict, IntegersAreNoWeights) {
  StateDict weights = random_weights(small_config());
  weights["unembed.b_U"] = at::zeros({11}, at::kLong);
  const std::string text = text_thrown_by<CheckpointError>([&] { made(weights); });
  EXPECT_NE(text.find("unembed.b_U"), std::string::npos) << text;
  EXPECT_NE(text.find("int64"), std::string::npos) << text;
}

TEST(FromStateDict, UndefinedTensorsAreRefused) {
  StateDict weights = random_weights(small_config());
  weights["unembed.b_U"] = at::Tensor();
  EXPECT_THROW(made(weights), CheckpointError);
}

TEST(FromStateDict, DoesNotKeepTheCallersTensors) {
  StateDict weights = random_weights(small_config());
  const HookedTransformer model = made(weights);
  const at::Tensor tokens = random_tokens(small_config(), {2, 6});
  const at::Tensor before = model(tokens);
  for (auto& [name, value] : weights) value.zero_();
  EXPECT_TRUE(at::equal(model(tokens), before));
}

TEST(FromStateDict, BadConfigsAreRefusedFirst) {
  ModelConfig config = small_config();
  config.n_kv_heads = 3;
  EXPECT_THROW(HookedTransformer::from_state_dict({}, config), ConfigError);
  config = small_config();
  config.n_layers = 0;
  EXPECT_THROW(HookedTransformer::create(config), ConfigError);
}

TEST(StateDict, RoundTripsThroughAModel) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_config(seed);
    config.dtype = at::kDouble;
    const StateDict weights = random_weights(config);
    const StateDict again = HookedTransformer::from_state_dict(weights, config, kRaw).state_dict();
    ASSERT_EQ(again.size(), weights.size());
    for (const auto& [name, value] : weights) {
      EXPECT_TRUE(at::equal(again.at(name), value)) << name;
      EXPECT_TRUE(again.at(name).is_contiguous()) << name;
    }
  }
}

class SavedModel : public testing::TestWithParam<at::ScalarType> {};

INSTANTIATE_TEST_SUITE_P(Dtypes, SavedModel,
                         testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST_P(SavedModel, LoadsBitIdentically) {
  ModelConfig config = small_config();
  config.dtype = GetParam();
  // Steps that were applied before saving are not applied again.
  const auto model =
      HookedTransformer::from_state_dict(random_weights(config), config, {.dtype = GetParam()});
  const TempFolder folder;
  model.save(folder / "model");
  const auto loaded = HookedTransformer::load((folder / "model").string());
  EXPECT_EQ(loaded.config(), model.config());
  EXPECT_EQ(loaded.config().dtype, GetParam());
  const StateDict before = model.state_dict(), after = loaded.state_dict();
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, value] : before) EXPECT_TRUE(at::equal(after.at(name), value)) << name;
  const at::Tensor tokens = random_tokens(config, {2, 6});
  EXPECT_TRUE(at::equal(loaded(tokens), model(tokens)));
}

TEST_P(SavedModel, RawModelLoadsAsItWasSaved) {
  ModelConfig config = small_config();
  config.dtype = GetParam();
  const HookedTransformer model = random_model(config);
  const TempFolder folder;
  model.save(folder / "model");
  const auto loaded = HookedTransformer::load((folder / "model").string());
  const at::Tensor tokens = random_tokens(config, {2, 6});
  EXPECT_EQ(loaded.config(), model.config());
  EXPECT_TRUE(at::equal(loaded(tokens), model(tokens)));
}

TEST(SavedFolder, OfEveryRandomConfigLoadsBitIdentically) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_config(seed);
    const HookedTransformer model = random_model(config);
    const TempFolder folder;
    model.save(folder / "model");
    const auto loaded = HookedTransformer::load((folder / "model").string());
    EXPECT_EQ(loaded.config(), model.config());
    const at::Tensor tokens = random_tokens(config, {2, 6});
    EXPECT_TRUE(at::equal(loaded(tokens), model(tokens)));
  }
}

TEST(SavedFolder, RecordsItsProcessingSteps) {
  const auto model = HookedTransformer::from_state_dict(random_weights(small_config()), small_config(),
                                                        {.dtype = at::kDouble});
  EXPECT_FALSE(model.config().processing.empty());
  const TempFolder folder;
  model.save(folder / "model");
  const auto loaded = HookedTransformer::load((folder / "model").string());
  EXPECT_EQ(loaded.config().processing, model.config().processing);
  int already = 0;
  for (const StepReport& step : loaded.processing()) {
    const bool recorded = std::ranges::count(model.config().processing, processing_step_name(step.step)) > 0;
    EXPECT_EQ(step.outcome == "already applied", recorded)
        << processing_step_name(step.step) << ": " << step.outcome;
    already += step.outcome == "already applied";
  }
  EXPECT_EQ(already, 4);
}

TEST(SavedFolder, IsProcessedWhenAsked) {
  const HookedTransformer raw = random_model(small_config());
  const TempFolder folder;
  raw.save(folder / "model");
  const auto processed = HookedTransformer::load((folder / "model").string(),
                                                 {.processing = WeightProcessing::all_that_apply()});
  EXPECT_EQ(processed.config().processing.size(), 4u);
  EXPECT_TRUE(HookedTransformer::load((folder / "model").string()).config().processing.empty());
}

TEST(LoadOptions, ProcessingLeavesLogProbabilities) {
  const StateDict weights = random_weights(small_config());
  const at::Tensor tokens = random_tokens(small_config(), {2, 6});
  const HookedTransformer raw = made(weights), processed = made(weights, {.dtype = at::kDouble});
  EXPECT_LT(relative_difference(processed(tokens).log_softmax(-1), raw(tokens).log_softmax(-1)), 1e-10);
  EXPECT_GT(relative_difference(processed(tokens), raw(tokens)), 1e-3) << "nothing was processed";
}

TEST(LoadOptions, DtypeIsAsAskedFor) {
  const TempFolder folder;
  ModelConfig config = small_config();
  config.dtype = at::kFloat;
  random_model(config).save(folder / "model");
  EXPECT_EQ(HookedTransformer::load((folder / "model").string()).config().dtype, at::kFloat);
  const auto precise = HookedTransformer::load((folder / "model").string(), {.dtype = at::kDouble});
  EXPECT_EQ(precise.config().dtype, at::kDouble);
  EXPECT_EQ(precise(random_tokens(config, {1, 3})).scalar_type(), at::kDouble);
}

TEST(Load, AbsentModelsAreErrors) {
  const TempFolder folder;
  EXPECT_THROW(HookedTransformer::load((folder / "nothing").string()), Error);
  EXPECT_THROW(HookedTransformer::load(folder.path().string()), Error);
}

TEST(Create, IsTheSameForTheSameSeed) {
  const at::Tensor tokens = random_tokens(small_config(), {2, 6});
  const auto logits = [&](std::uint64_t seed, InitMode init) {
    return HookedTransformer::create(small_config(), {.seed = seed, .init = init})(tokens);
  };
  for (const InitMode init : {InitMode::gpt2, InitMode::xavier_uniform, InitMode::xavier_normal,
                              InitMode::kaiming_uniform, InitMode::kaiming_normal}) {
    EXPECT_TRUE(at::equal(logits(1, init), logits(1, init)));
    EXPECT_FALSE(at::equal(logits(1, init), logits(2, init)));
  }
}

TEST(Create, DrawsGpt2WeightsOfTheAskedSpread) {
  ModelConfig config = small_config();
  config.d_model = 256;
  const StateDict weights = HookedTransformer::create(config, {.initializer_range = 0.02}).state_dict();
  EXPECT_NEAR(weights.at("blocks.0.mlp.W_in").std().item<double>(), 0.02, 0.001);
  EXPECT_EQ(weights.at("blocks.0.mlp.b_in").abs().max().item<double>(), 0.0);
  EXPECT_EQ(weights.at("blocks.0.ln1.w").min().item<double>(), 1.0);
  EXPECT_NEAR(HookedTransformer::create(config).state_dict().at("blocks.0.mlp.W_in").std().item<double>(),
              0.8 / 16.0, 0.003);
}

}  // namespace
}  // namespace hooked::load_options_test
