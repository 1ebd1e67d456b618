// The engine against the plain model, on a set of configs in which every two option values meet: every
// activation, raw and processed.
#include <ATen/ops/log_softmax.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hooked/engine/hooked_transformer.h"
#include "tests/reference/conversion.h"
#include "tests/reference/pairwise.h"
#include "tests/reference/plain_model.h"
#include "tests/reference/random_weights.h"
#include "tests/support/activations.h"
#include "tests/support/relative_difference.h"

namespace hooked::reference::reference_test {
namespace {

constexpr double kActivationTolerance = 1e-9;  // float64
constexpr double kLogProbTolerance = 1e-10;    // float64, nats
constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kLength = 6;

/// Rows with 0, 1 and 2 tokens of padding; nothing without padding.
std::optional<Mask> padding_mask(Padding padding) {
  if (padding == Padding::none) return std::nullopt;
  Mask mask;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    std::vector<std::int64_t> row(kLength, 1);
    for (std::int64_t i = 0; i < b; ++i) {
      row[static_cast<std::size_t>(padding == Padding::left ? i : kLength - 1 - i)] = 0;
    }
    mask.push_back(std::move(row));
  }
  return mask;
}

class PairwiseCase : public testing::TestWithParam<std::size_t> {
 protected:
  const Case& which() const { return pairwise_cover().cases[GetParam()]; }
  const ModelConfig& config() const { return which().config; }
  std::uint64_t seed() const { return GetParam() + 1; }

  StateDict weights() const { return random_weights(config(), seed()); }
  Tokens tokens() const { return random_tokens(config(), kBatch, kLength, seed()); }
  at::Tensor mask() const {
    const auto rows = padding_mask(which().padding);
    return rows ? to_tensor(*rows) : at::Tensor();
  }

  /// Types of the tokens, of every kind the model has.
  std::optional<Tokens> types() const {
    ModelConfig kinds = config();
    kinds.d_vocab = kinds.token_types;
    return kinds.token_types > 0 ? std::optional(random_tokens(kinds, kBatch, kLength, seed() + 1000))
                                 : std::nullopt;
  }
  PlainRun plain(const ModelConfig& model, const StateDict& weights) const {
    return forward(model, weights, tokens(), {.mask = padding_mask(which().padding), .types = types()});
  }

  /// Every point of a run of the engine, and the logits where there are any.
  NamedTensors run(const HookedTransformer& model) const {
    const bool logits = model.config().has_unembedding();
    const RunOptions options{.output = logits ? Output::logits : Output::none};
    Input input(to_tensor(tokens()), {.attention_mask = mask()});
    if (const auto rows = types()) input.token_types = to_tensor(*rows);
    RunResult result = model.run_with_cache(input, act::everything, options);
    NamedTensors tensors = by_name(result.cache);
    if (logits) tensors["logits"] = result.logits;
    return tensors;
  }

  HookedTransformer load(const WeightProcessing& processing) const {
    ModelConfig native = config();
    native.dtype = at::kDouble;
    return HookedTransformer::from_state_dict(weights(), native,
                                              {.dtype = at::kDouble, .processing = processing});
  }
};

TEST_P(PairwiseCase, EveryActivationEqualsThePlainModels) {
  SCOPED_TRACE(describe(which()));
  EXPECT_TRUE(agree(run(load(WeightProcessing::none())), to_tensors(plain(config(), weights())),
                    {.tolerance = kActivationTolerance, .attention_mask = mask()}));
}

TEST_P(PairwiseCase, ProcessingKeepsLogProbabilitiesScoresAndPatterns) {
  SCOPED_TRACE(describe(which()));
  const PlainRun plain_run = plain(config(), weights());
  NamedTensors raw, processed;
  NamedTensors engine = run(load(WeightProcessing::all_that_apply()));
  if (config().has_unembedding()) {
    raw["log_probs"] = to_tensor(log_probabilities(plain_run.logits));
    processed["log_probs"] = at::log_softmax(engine.at("logits"), -1);
  }
  for (const auto& [name, value] : engine) {
    if (!name.ends_with("hook_attn_scores") && !name.ends_with("hook_pattern")) continue;
    processed[name] = value;
    raw[name] = to_tensor(plain_run.activations.at(name));
  }
  EXPECT_TRUE(agree(processed, raw, {.tolerance = kLogProbTolerance, .attention_mask = mask()}));
}

TEST_P(PairwiseCase, EveryActivationOfTheProcessedModelEqualsThePlainModels) {
  SCOPED_TRACE(describe(which()));
  const HookedTransformer model = load(WeightProcessing::all_that_apply());
  EXPECT_TRUE(agree(run(model), to_tensors(plain(model.config(), model.state_dict())),
                    {.tolerance = kActivationTolerance, .attention_mask = mask()}));
}

INSTANTIATE_TEST_SUITE_P(Pairwise, PairwiseCase,
                         testing::Range(std::size_t{0}, pairwise_cover().cases.size()));

std::vector<Activation> head_activations() {
  std::vector<Activation> activations = all_activations();
  std::erase(activations, Activation(Activation::xielu));
  activations.push_back(Activation::swish_with(1.4));
  return activations;
}

// A masked-LM head may have any activation but the one with weights.
TEST(MaskedLmHead, EqualsThePlainModelsWithEveryActivation) {
  for (const Activation activation : head_activations()) {
    SCOPED_TRACE(fmt::format("{} {}", activation_name(activation), activation.beta()));
    ModelConfig config = make_case(Choice(option_table().size(), 0)).config;
    config.unembedding->mlm_head = activation;
    config.dtype = at::kDouble;
    const StateDict weights = random_weights(config, 7);
    const Tokens tokens = random_tokens(config, kBatch, kLength, 8);
    const PlainRun expected = forward(config, weights, tokens);
    const auto model = HookedTransformer::from_state_dict(
        weights, config, {.dtype = at::kDouble, .processing = WeightProcessing::none()});
    const at::Tensor logits = model.run(to_tensor(tokens)).logits;
    EXPECT_LT(relative_difference(logits, to_tensor(expected.logits)), kActivationTolerance);
  }
}

}  // namespace
}  // namespace hooked::reference::reference_test
