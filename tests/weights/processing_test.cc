#include "hooked/weights/processing.h"

#include "tests/weights/square_model.h"

namespace hooked::processing_test {
namespace {

using enum ProcessingStep;

constexpr std::uint64_t kRandomModels = 1000;

TEST(ProcessingStepName, ParsesWhatItPrints) {
  for (const ProcessingStep step : kProcessingSteps) {
    EXPECT_EQ(parse_processing_step(processing_step_name(step)), step);
  }
}

TEST(ProcessingStepName, UnknownNameGetsTheNearest) {
  const auto text = text_thrown_by<ConfigError>([] { parse_processing_step("fold_lm"); });
  EXPECT_NE(text.find("got \"fold_lm\""), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean fold_ln?"), std::string::npos) << text;
}

TEST(ProcessWeights, KeepsLogProbabilitiesOfRandomModels) {
  std::array<int, kProcessingSteps.size()> applied = {};
  for (std::uint64_t seed = 0; seed < kRandomModels; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_double_config(seed);
    const StateDict weights = reference::random_weights(config, seed);
    const ProcessedWeights all = process_weights(weights, config);
    all.config.validate();
    EXPECT_LT(log_probability_difference(weights, config, all, seed), kLogProbabilityTolerance);
    for (const ProcessingStep step : kProcessingSteps) {
      try {
        const ProcessedWeights one = process_weights(weights, config, WeightProcessing::only({step}));
        if (outcome_of(step, one.report) != "applied") continue;
        ++applied[static_cast<std::size_t>(step)];
        EXPECT_LT(log_probability_difference(weights, config, one, seed), kLogProbabilityTolerance)
            << processing_step_name(step);
      } catch (const ConfigError& error) {
        EXPECT_EQ(error.where(), processing_step_name(step));
        EXPECT_NE(outcome_of(step, all.report), "applied");
      }
    }
  }
  for (const int count : applied) EXPECT_GT(count, 8) << "the random models say little about a step";
}

TEST(ProcessWeights, KeepsLogProbabilitiesWithEveryStepAtOnce) {
  const ModelConfig config = square_config();
  const StateDict weights = reference::random_weights(config, 1);
  const ProcessedWeights all = process_weights(
      weights, config, WeightProcessing::only({kProcessingSteps.begin(), kProcessingSteps.end()}));
  EXPECT_LT(log_probability_difference(weights, config, all, 1), kLogProbabilityTolerance);
  EXPECT_EQ(all.config.processing,
            (std::vector<std::string>{"fold_ln", "center_writing_weights", "center_unembed",
                                      "fold_value_biases", "refactor_factored_attn_matrices"}));
}

TEST(ProcessWeights, LeavesTheCallersTensorsAlone) {
  const ModelConfig config = square_config();
  const StateDict weights = reference::random_weights(config, 2);
  StateDict copies;
  for (const auto& [name, values] : weights) copies[name] = values.clone();
  process_weights(weights, config,
                  WeightProcessing::only({kProcessingSteps.begin(), kProcessingSteps.end()}));
  for (const auto& [name, values] : weights) EXPECT_TRUE(at::equal(values, copies.at(name))) << name;
}

TEST(ProcessWeights, RecordedStepsAreNotAppliedAgain) {
  const ModelConfig config = square_config();
  const ProcessedWeights once = process_weights(reference::random_weights(config, 3), config);
  const ProcessedWeights twice = process_weights(once.weights, once.config);
  EXPECT_EQ(twice.config, once.config);
  EXPECT_EQ(outcome_of(fold_ln, twice.report), "already applied");
  ASSERT_EQ(twice.weights.size(), once.weights.size());
  for (const auto& [name, values] : twice.weights)
    EXPECT_TRUE(at::equal(values, once.weights.at(name))) << name;
}

TEST(ProcessWeights, UnknownRecordedStepIsRefused) {
  ModelConfig config = random_config(1);
  config.processing = {"bogus"};
  EXPECT_THROW(plan_processing(config), ConfigError);
}

TEST(ProcessWeights, AppliedAgainChangesNothingMore) {
  const ModelConfig config = square_config();
  const ProcessedWeights once = process_weights(reference::random_weights(config, 4), config);
  ModelConfig forgetful = once.config;
  forgetful.processing.clear();
  const ProcessedWeights twice = process_weights(once.weights, forgetful);
  EXPECT_EQ(outcome_of(center_unembed, twice.report), "applied");
  for (const auto& [name, values] : twice.weights) {
    EXPECT_LT(difference(values, once.weights.at(name)), 1e-14) << name;  // float64 weights of size one
  }
}

TEST(ProcessWeights, NoneKeepsTheTensorsThemselves) {
  const ModelConfig config = square_config();
  const StateDict weights = reference::random_weights(config, 5);
  const ProcessedWeights raw = process_weights(weights, config, WeightProcessing::none());
  EXPECT_EQ(raw.config, config);
  for (const auto& [name, values] : raw.weights) EXPECT_TRUE(values.is_same(weights.at(name))) << name;
  for (const StepReport& row : raw.report) EXPECT_EQ(row.outcome, "not requested");
}

TEST(ProcessWeights, RoundsOnceToTheWiderDtype) {
  ModelConfig config = square_config();
  const StateDict exact = process_weights(reference::random_weights(config, 6), config).weights;
  config.dtype = at::kFloat;
  for (const auto& [name, values] : process_weights(reference::random_weights(config, 6), config).weights) {
    EXPECT_EQ(values.scalar_type(), at::kDouble) << name;
  }
  for (const auto& [name, values] :
       process_weights(reference::random_weights(config, 6, at::kFloat), config).weights) {
    ASSERT_EQ(values.scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(at::equal(values, exact.at(name).to(at::kFloat))) << name;
  }
  const StateDict half = process_weights(reference::random_weights(config, 6, at::kBFloat16), config).weights;
  EXPECT_EQ(half.at("blocks.0.attn.W_Q").scalar_type(), at::kFloat);
  EXPECT_EQ(half.at("unembed.b_U").scalar_type(), at::kFloat);
}

TEST(ProcessWeights, MissingTensorIsNamed) {
  const ModelConfig config = square_config();
  StateDict weights = reference::random_weights(config, 7);
  weights.erase("blocks.1.mlp.W_in");
  EXPECT_TRUE(throws<CheckpointError>([&] { process_weights(weights, config); }, "blocks.1.mlp.W_in",
                                      {"expected shape [d_model 12, d_mlp 12], got nothing"}));
}

TEST(ProcessWeights, WrongShapeIsNamedWithBothShapes) {
  const ModelConfig config = square_config();
  StateDict weights = reference::random_weights(config, 7);
  weights["unembed.W_U"] = at::zeros({12, 13}, at::kDouble);
  EXPECT_TRUE(throws<CheckpointError>([&] { process_weights(weights, config); }, "unembed.W_U",
                                      {"expected [d_model 12, vocab 12], got [12, 13]"}));
}

TEST(ProcessWeights, IntegerWeightsAreRefused) {
  const ModelConfig config = square_config();
  StateDict weights = reference::random_weights(config, 7);
  weights["embed.W_E"] = at::zeros({12, 12}, at::kChar);
  EXPECT_TRUE(throws<CheckpointError>([&] { process_weights(weights, config); }, "embed.W_E", {"got Char"}));
}

TEST(PlanProcessing, SaysWhatProcessWeightsWillReport) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const ModelConfig config = random_config(seed);
    const auto plan = plan_processing(config);
    const auto report = process_weights(reference::random_weights(config, seed), config).report;
    ASSERT_EQ(plan.size(), kProcessingSteps.size());
    for (std::size_t i = 0; i < plan.size(); ++i) {
      EXPECT_EQ(plan[i].step, kProcessingSteps[i]);
      EXPECT_EQ(plan[i].outcome, report[i].outcome);
    }
  }
}

TEST(PlanProcessing, InvalidConfigIsRefused) {
  ModelConfig config = square_config();
  config.d_model = 0;
  EXPECT_TRUE(throws<ConfigError>([&] { plan_processing(config); }, "d_model"));
}

struct Refusal {
  const char* name;
  ProcessingStep step;
  void (*make)(ModelConfig&);
  const char* reason;
};

class RefusedStep : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedStep, IsSkippedWithAReasonOrThrowsIt) {
  ModelConfig config = square_config();
  GetParam().make(config);
  config.validate();
  if (GetParam().step != refactor_factored_attn_matrices) {
    const std::string outcome = outcome_of(GetParam().step, plan_processing(config));
    EXPECT_NE(outcome.find(GetParam().reason), std::string::npos) << outcome;
  }
  EXPECT_TRUE(throws<ConfigError>([&] { plan_processing(config, WeightProcessing::only({GetParam().step})); },
                                  processing_step_name(GetParam().step), {GetParam().reason}));
}

void shortformer(ModelConfig& c) { c.positions = ShortformerPositions{}; }

void rotary(ModelConfig& c) { c.positions = RotaryPositions{}; }

void norms_after(ModelConfig& c) {
  c.norm_place = NormPlace::post;
  c.final_norm = NormKind::none;
}

INSTANTIATE_TEST_SUITE_P(
    Steps, RefusedStep,
    testing::Values(
        Refusal{"FoldPost", fold_ln, norms_after, "norms after the sublayers"},
        Refusal{"FoldOutput", fold_ln, [](ModelConfig& c) { c.norm_place = NormPlace::output; },
                "sublayers' outputs"},
        Refusal{"FoldShortformer", fold_ln, shortformer, "shortformer"},
        Refusal{"FoldWeightedInputs", fold_ln,
                [](ModelConfig& c) {
                  c.mlp = MlpKind::gated;
                  c.experts =
                      Experts{.n_experts = 3, .per_token = 1, .d_expert = c.d_mlp, .weighted_inputs = true};
                },
                "weights of their tokens"},
        Refusal{"WritersRms", center_writing_weights,
                [](ModelConfig& c) { c.norm = c.final_norm = NormKind::rms_norm; },
                "RMSNorm does not subtract"},
        Refusal{"WritersFinalRms", center_writing_weights,
                [](ModelConfig& c) { c.final_norm = NormKind::rms_norm; }, "final RMSNorm"},
        Refusal{"WritersNoFinalNorm", center_writing_weights,
                [](ModelConfig& c) { c.final_norm = NormKind::none; }, "no final norm"},
        Refusal{"WritersNoNorm", center_writing_weights,
                [](ModelConfig& c) { c.norm = c.final_norm = NormKind::none; }, "no norms"},
        Refusal{"WritersBoth", center_writing_weights, [](ModelConfig& c) { c.norm_place = NormPlace::both; },
                "norms write to the stream"},
        Refusal{"WritersShortformer", center_writing_weights, shortformer, "shortformer"},
        Refusal{"UnembedSoftCap", center_unembed, [](ModelConfig& c) { c.unembedding->soft_cap = 30.0; },
                "soft cap"},
        Refusal{"RefactorRotary", refactor_factored_attn_matrices, rotary, "rotary"},
        Refusal{"RefactorQkNorm", refactor_factored_attn_matrices,
                [](ModelConfig& c) { c.qk_norm = QkNorm{.span = QkNorm::per_head}; },
                "norms of queries and keys"},
        Refusal{"RefactorLatents", refactor_factored_attn_matrices,
                [](ModelConfig& c) { c.latent = Latents{.d_kv = 5, .d_value = 4}; }, "share a latent"},
        Refusal{"RefactorGroupedQuery", refactor_factored_attn_matrices,
                [](ModelConfig& c) { c.n_kv_heads = 1; }, "share keys and values"}),
    named);

TEST(PlanProcessing, NothingToDoIsNoErrorWhenAsked) {
  ModelConfig config = square_config();
  config.qkv_bias = false;
  const auto outcome = [&](ProcessingStep step) {
    return outcome_of(step, plan_processing(config, WeightProcessing::only({step})));
  };
  EXPECT_EQ(outcome(fold_value_biases), "the model has no value biases");
  config.norm = config.final_norm = NormKind::none;
  EXPECT_EQ(outcome(fold_ln), "the model has no norms");
}

TEST(PlanProcessing, FoldedNormsGiveValueBiasesToFold) {
  ModelConfig config = square_config();
  config.qkv_bias = false;
  EXPECT_EQ(outcome_of(fold_value_biases, plan_processing(config)), "applied");
}

}  // namespace
}  // namespace hooked::processing_test
