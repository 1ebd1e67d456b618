// A step that the config allows looks at the numbers it would change.

#include "tests/weights/square_model.h"

namespace hooked::processing_test {
namespace {

using enum ProcessingStep;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The square model over a vocabulary of 60, in which a median means something.
ModelConfig config_in(at::ScalarType dtype) {
  ModelConfig config = square_config();
  config.d_vocab = 60;
  config.unembedding->d_vocab = 60;
  config.dtype = dtype;
  return config;
}

void mask_padding(StateDict& weights, double value) {
  for (const std::int64_t padding : {57, 58, 59}) weights.at("unembed.b_U")[padding].fill_(value);
}

struct Risk {
  const char* name;
  ProcessingStep step;
  void (*make)(StateDict& weights);
  const char* reason;
  at::ScalarType dtype = at::kFloat;
};

class RiskyNumbers : public testing::TestWithParam<Risk> {};

/// The largest difference of log-probabilities of entries that can happen.
double possible_difference(const StateDict& before, const ModelConfig& config,
                           const ProcessedWeights& after) {
  const auto tokens = reference::random_tokens(config, 2, 6, 5);
  const auto log_probs = [&](const ModelConfig& of, const StateDict& weights) {
    return reference::log_probabilities(reference::forward(of, weights, tokens).logits);
  };
  const auto expected = log_probs(config, before), got = log_probs(after.config, after.weights);
  double largest = 0.0;
  for (std::int64_t row = 0; row < expected.rows(); ++row) {
    for (std::int64_t id = 0; id < expected.last(); ++id) {
      const double was = expected.row(row)[id], is = got.row(row)[id];
      if (was > -1e3) largest = std::isnan(is) ? kInfinity : std::max(largest, std::abs(was - is));
    }
  }
  return largest;
}

TEST_P(RiskyNumbers, LeaveTheStepOutWithAReason) {
  const Risk& risk = GetParam();
  const ModelConfig config = config_in(risk.dtype);
  StateDict weights = reference::random_weights(config, 3, risk.dtype);
  risk.make(weights);
  const ProcessedWeights processed = process_weights(weights, config);
  if (risk.step != refactor_factored_attn_matrices) {
    const std::string outcome = outcome_of(risk.step, processed.report);
    EXPECT_NE(outcome.find(risk.reason), std::string::npos) << outcome;
    EXPECT_EQ(std::ranges::count(processed.config.processing, processing_step_name(risk.step)), 0);
  }
  EXPECT_TRUE(
      throws<ConfigError>([&] { process_weights(weights, config, WeightProcessing::only({risk.step})); },
                          processing_step_name(risk.step), {risk.reason}));
}

INSTANTIATE_TEST_SUITE_P(
    Steps, RiskyNumbers,
    testing::Values(
        Risk{"MaskOfInfinity", center_unembed, [](StateDict& w) { mask_padding(w, -kInfinity); },
             "unembed.b_U holds -inf at index 57 and 2 more"},
        Risk{"MaskOfNan", center_unembed, [](StateDict& w) { mask_padding(w, kNan); },
             "unembed.b_U holds nan"},
        Risk{"MaskOf1e30", center_unembed, [](StateDict& w) { mask_padding(w, -1e30); },
             "such as -1e+30 of token"},
        Risk{"MaskOf1e9", center_unembed, [](StateDict& w) { mask_padding(w, -1e9); },
             "such as -1e+09 of token"},
        Risk{"MaskOf1e4", center_unembed, [](StateDict& w) { mask_padding(w, -1e4); },
             "such as -1e+04 of token"},
        Risk{"MaskOf1e4InBfloat16", center_unembed, [](StateDict& w) { mask_padding(w, -1e4); },
             "such as -1e+04 of token", at::kBFloat16},
        Risk{"UnusedRowsOfNan", center_unembed,
             [](StateDict& w) { w.at("unembed.W_U").select(1, 58).fill_(kNan); }, "not finite"},
        Risk{"UnusedRowsOf1e9", center_unembed,
             [](StateDict& w) { w.at("unembed.W_U").select(1, 58).fill_(1e9); }, "few rows of unembed.W_U"},
        Risk{"GainOfInfinity", fold_ln, [](StateDict& w) { w.at("blocks.1.ln2.w")[3].fill_(kInfinity); },
             "blocks.1.ln2.w holds inf at index 3"},
        Risk{"ShiftOfNan", fold_ln, [](StateDict& w) { w.at("ln_final.b")[0].fill_(kNan); },
             "ln_final.b holds nan at index 0"},
        Risk{"GainOf1e38", fold_ln,
             [](StateDict& w) {
               w.at("blocks.0.ln1.w")[5].fill_(1e38);
               w.at("blocks.0.attn.W_Q").mul_(1e4);
             },
             "out of the range of float32"},
        Risk{"GainOf1eMinus6InFloat16", fold_ln, [](StateDict& w) { w.at("blocks.0.ln1.w").fill_(1e-6); },
             "out of the range of float16", at::kHalf},
        Risk{"ShiftOf1e6", fold_ln, [](StateDict& w) { w.at("blocks.0.ln2.b")[1].fill_(1e6); },
             "blocks.0.ln2.b reaches 1e+06"},
        Risk{"EmbeddingFarFromZero", center_writing_weights,
             [](StateDict& w) { w.at("embed.W_E").add_(1e5); },
             "the mean of embed.W_E over d_model is 1e+05"},
        Risk{"BiasFarFromZero", center_writing_weights,
             [](StateDict& w) { w.at("blocks.1.mlp.b_out").add_(1e5); }, "blocks.1.mlp.b_out"},
        Risk{"ValueBiasOf1e30", fold_value_biases,
             [](StateDict& w) { w.at("blocks.1.attn.b_V")[2][1].fill_(1e30); },
             "blocks.1.attn.b_V reaches 1e+30"},
        Risk{"ValueBiasOfNan", fold_value_biases,
             [](StateDict& w) { w.at("blocks.0.attn.b_V")[0][0].fill_(kNan); }, "b_V holds nan"},
        Risk{"FactorsOfNan", refactor_factored_attn_matrices,
             [](StateDict& w) { w.at("blocks.0.attn.W_K")[1][2][3].fill_(kNan); },
             "blocks.0.attn.W_K holds nan"}),
    named);

// What the default does to heads that mask padding: other entries keep their probabilities.
TEST(MaskedVocabulary, KeepsItsProbabilities) {
  for (const double mask : {-kInfinity, -1e30, -1e9, -1e4}) {
    const ModelConfig config = config_in(at::kFloat);
    StateDict weights = reference::random_weights(config, 4, at::kFloat);
    mask_padding(weights, mask);
    EXPECT_LT(possible_difference(weights, config, process_weights(weights, config)), 1e-5) << mask;
  }
}

// A step that looks odd but is exact stays applied.
TEST(ProcessWeights, AppliesWhatItCanKeep) {
  const ModelConfig config = config_in(at::kFloat);
  StateDict weights = reference::random_weights(config, 6, at::kFloat);
  weights.at("blocks.0.ln1.w")[4].fill_(0.0);  // a dead direction
  weights.at("embed.W_E")[7].fill_(kNan);      // a token that is never used
  weights.at("unembed.b_U").sub_(30.0);        // a shift that all logits share
  weights.at("blocks.0.mlp.b_out").fill_(0.5);
  const ProcessedWeights processed = process_weights(weights, config);
  for (const ProcessingStep step : {fold_ln, center_writing_weights, center_unembed, fold_value_biases})
    EXPECT_EQ(outcome_of(step, processed.report), "applied");
}

// In the dtype that the weights are stored in, processing costs no more than a few of its digits.
TEST(ProcessWeights, KeepsLogProbabilitiesInHalfPrecision) {
  for (const auto& [dtype, tolerance] :
       {std::pair{at::kFloat, 1e-5}, {at::kHalf, 2e-2}, {at::kBFloat16, 1e-1}}) {
    const ModelConfig config = config_in(dtype);
    const StateDict weights = reference::random_weights(config, 8, dtype);
    for (const ProcessingStep step : kProcessingSteps) {
      const ProcessedWeights one = process_weights(weights, config, WeightProcessing::only({step}));
      EXPECT_LT(possible_difference(weights, config, one), tolerance)
          << processing_step_name(step) << " " << dtype;
    }
  }
}

}  // namespace
}  // namespace hooked::processing_test
