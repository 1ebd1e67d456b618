// The engine against the plain model, on configs in which every two option values occur together: every
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

/// Rows of that many columns with 0, 1 and 2 tokens of padding; nothing without padding.
std::optional<Mask> padding_mask(Padding padding, std::int64_t length = kLength) {
  if (padding == Padding::none) return std::nullopt;
  Mask mask;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    std::vector<std::int64_t> row(static_cast<std::size_t>(length), 1);
    for (std::int64_t i = 0; i < b; ++i) {
      row[static_cast<std::size_t>(padding == Padding::left ? i : length - 1 - i)] = 0;
    }
    mask.push_back(std::move(row));
  }
  return mask;
}

/// The columns that a decoder gets besides an encoder's kLength; none if it has only its start token.
struct DecoderColumns {
  std::int64_t length = 0;
  Padding padding = Padding::none;
};

DecoderColumns decoder_columns(DecoderReads reads) {
  switch (reads) {
    case DecoderReads::fewer:
      return {kLength - 2};
    case DecoderReads::more_left_padded:
      return {kLength + 2, Padding::left};
    case DecoderReads::as_many_right_padded:
      return {kLength, Padding::right};
    case DecoderReads::start_token:
      break;
  }
  return {};
}

at::Tensor tensor_or_none(const std::optional<Mask>& rows) { return rows ? to_tensor(*rows) : at::Tensor(); }

class PairwiseCase : public testing::TestWithParam<std::size_t> {
 protected:
  const Case& which() const { return pairwise_cover().cases[GetParam()]; }
  const ModelConfig& config() const { return which().config; }
  std::uint64_t seed() const { return GetParam() + 1; }

  StateDict weights() const { return random_weights(config(), seed()); }
  Tokens tokens() const { return random_tokens(config(), kBatch, kLength, seed()); }

  /// What the plain model is given in addition to the tokens; types of every kind that the model has.
  Beside beside() const {
    Beside beside{.mask = padding_mask(which().padding)};
    if (config().token_types > 0) {
      ModelConfig kinds = config();
      kinds.d_vocab = kinds.token_types;
      beside.types = random_tokens(kinds, kBatch, kLength, seed() + 1000);
    }
    const auto [length, padding] = decoder_columns(which().decoder_reads);
    if (config().has_encoder() && length > 0) {
      beside.decoder = random_tokens(config(), kBatch, length, seed() + 2000);
      beside.decoder_mask = padding_mask(padding, length);
    }
    return beside;
  }

  PlainRun plain(const ModelConfig& model, const StateDict& weights) const {
    return forward(model, weights, tokens(), beside());
  }

  /// A comparison of real tokens.
  Comparison within(double tolerance) const {
    Comparison how{.tolerance = tolerance, .attention_mask = tensor_or_none(beside().mask)};
    if (config().has_encoder()) how.decoder_mask = tensor_or_none(beside().decoder_mask);
    return how;
  }

  /// Every point of a run of the engine, and the logits if it has any.
  NamedTensors run(const HookedTransformer& model) const {
    const bool logits = model.config().has_unembedding();
    const RunOptions options{.output = logits ? Output::logits : Output::none};
    const Beside given = beside();
    const Input input(to_tensor(tokens()),
                      {.attention_mask = tensor_or_none(given.mask),
                       .token_types = tensor_or_none(given.types),
                       .decoder = {.tokens = tensor_or_none(given.decoder),
                                   .attention_mask = tensor_or_none(given.decoder_mask)}});
    RunResult result = model.run_with_cache(input, act::everything, options);
    NamedTensors tensors = by_name(result.cache);
    if (logits) tensors["logits"] = result.logits();
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
                    within(kActivationTolerance)));
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
  EXPECT_TRUE(agree(processed, raw, within(kLogProbTolerance)));
}

TEST_P(PairwiseCase, EveryActivationOfTheProcessedModelEqualsThePlainModels) {
  SCOPED_TRACE(describe(which()));
  const HookedTransformer model = load(WeightProcessing::all_that_apply());
  EXPECT_TRUE(
      agree(run(model), to_tensors(plain(model.config(), model.state_dict())), within(kActivationTolerance)));
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
    const at::Tensor logits = model.run(to_tensor(tokens)).logits();
    EXPECT_LT(relative_difference(logits, to_tensor(expected.logits)), kActivationTolerance);
  }
}

}  // namespace
}  // namespace hooked::reference::reference_test
