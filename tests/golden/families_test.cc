// Checkpoints of every family, as transformers saves them, against what transformers computed with them in
// float64 (scripts/parity.py --write).
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <set>

#include "families/family.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/support/family_goldens.h"
#include "tests/support/relative_difference.h"

namespace hooked::families_test {
namespace {

constexpr double kToleranceFloat64 = 1e-9;

HookedTransformer load(const FamilyGolden& golden, const WeightProcessing& processing) {
  return HookedTransformer::load(golden.folder().string(), {.dtype = at::kDouble, .processing = processing});
}

class FamilyCheckpoint : public testing::TestWithParam<FamilyGolden> {
 protected:
  FamilyRun golden_ = read_family_golden(GetParam());

  /// Logits, or the last stream of a model without unembedding.
  RunOptions options() const {
    return {.output = golden_.logits.defined() ? Output::logits : Output::residual,
            .attention_mask = golden_.attention_mask,
            .token_types = golden_.token_types,
            .decoder_tokens = golden_.decoder_tokens};
  }
  static at::Tensor output_of(const RunResult& result) {
    return result.logits.defined() ? result.logits : result.residual;
  }
};

TEST_P(FamilyCheckpoint, EveryRecordedActivationAgrees) {
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  EXPECT_EQ(model.family(), GetParam().model_type);
  ASSERT_EQ(model.config().has_unembedding(), golden_.logits.defined());
  const RunResult result = model.run_with_cache(golden_.tokens, act::everything, options());
  if (golden_.logits.defined()) {
    EXPECT_LT(relative_difference(result.logits, golden_.logits), kToleranceFloat64);
  }
  ASSERT_FALSE(golden_.activations.empty());
  for (const auto& [name, expected] : golden_.activations) {
    EXPECT_LT(relative_difference(result.cache[name].reshape(expected.sizes()), expected), kToleranceFloat64)
        << name;
  }
}

TEST_P(FamilyCheckpoint, DefaultProcessingKeepsTheLogProbabilities) {
  const at::Tensor ours = output_of(load(GetParam(), {}).run(golden_.tokens, options()));
  if (!golden_.logits.defined()) {  // then the last stream is what processing must keep
    const at::Tensor raw = load(GetParam(), WeightProcessing::none()).run(golden_.tokens, options()).residual;
    EXPECT_LT(relative_difference(ours, raw), kToleranceFloat64);
    return;
  }
  const at::Tensor difference = at::log_softmax(ours, -1) - at::log_softmax(golden_.logits, -1);
  EXPECT_LT(difference.abs().max().item<double>(), kToleranceFloat64);
}

TEST_P(FamilyCheckpoint, GreedyContinuationIsTheSame) {
  if (!golden_.greedy.defined())
    GTEST_SKIP() << "no continuation: the context is shorter, or the model does not predict next tokens";
  // A decoder goes on from its start token, whatever the encoder reads.
  const bool decodes = golden_.decoder_tokens.defined();
  const std::int64_t given = decodes ? 1 : golden_.tokens.size(1);
  const at::Tensor prompt = decodes ? golden_.tokens.narrow(0, 0, 1) : golden_.greedy.narrow(1, 0, given);
  for (const WeightProcessing& processing : {WeightProcessing::none(), WeightProcessing::all_that_apply()}) {
    const HookedTransformer model = load(GetParam(), processing);
    const GenerateOptions options{.max_new_tokens = golden_.greedy.size(1) - given,
                                  .greedy = true,
                                  .stop_tokens = std::vector<std::int64_t>()};
    EXPECT_TRUE(model.generate(prompt, options).tokens.equal(golden_.greedy));
  }
}

// Row 0 keeps its length, row 1 loses its last tokens and is padded on one side.
TEST_P(FamilyCheckpoint, PaddedBatchEqualsItsUnpaddedRows) {
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  constexpr std::int64_t kPadding = 3;
  const std::int64_t length = golden_.tokens.size(1), kept = length - kPadding;
  const at::Tensor shorter = golden_.tokens.narrow(0, 1, 1).narrow(1, 0, kept);
  // All tokens of one type, so that the types need no padding.
  RunOptions plain = options();
  plain.token_types = at::Tensor();
  plain.attention_mask = at::Tensor();
  // Of an encoder-decoder it is the encoder's side that is padded.
  const auto row_of = [&](std::int64_t row) {
    RunOptions one = plain;
    if (one.decoder_tokens.defined()) one.decoder_tokens = one.decoder_tokens.narrow(0, row, 1);
    return one;
  };
  const at::Tensor alone = output_of(model.run(shorter, row_of(1)));
  const at::Tensor first = output_of(model.run(golden_.tokens.narrow(0, 0, 1), row_of(0)));
  const at::Tensor pad = at::full({1, kPadding}, 2, at::kLong);
  const at::Tensor real = at::ones({1, kept}, at::kLong), none = at::zeros({1, kPadding}, at::kLong);
  for (const bool left : {true, false}) {
    const at::Tensor row = left ? at::cat({pad, shorter}, 1) : at::cat({shorter, pad}, 1);
    const at::Tensor mask = left ? at::cat({none, real}, 1) : at::cat({real, none}, 1);
    const at::Tensor tokens = at::cat({golden_.tokens.narrow(0, 0, 1), row});
    const at::Tensor masks = at::cat({at::ones({1, length}, at::kLong), mask});
    RunOptions padded = plain;
    padded.attention_mask = masks;
    const at::Tensor output = output_of(model.run(tokens, padded));
    EXPECT_LT(relative_difference(output.narrow(0, 0, 1), first), kToleranceFloat64);
    const at::Tensor second = output.narrow(0, 1, 1);
    const bool all = golden_.decoder_tokens.defined();
    EXPECT_LT(relative_difference(all ? second : second.narrow(1, left ? kPadding : 0, kept), alone),
              kToleranceFloat64)
        << (left ? "left" : "right");
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, FamilyCheckpoint, testing::ValuesIn(family_goldens()),
                         [](const auto& info) { return info.param.name; });

TEST(FamilyGoldens, EveryFamilyHasOne) {
  std::set<std::string> covered{"hooked_transformer"};
  for (const FamilyGolden& golden : family_goldens()) covered.insert(golden.model_type);
  for (const Family& family : families())
    EXPECT_TRUE(covered.contains(std::string(family.model_type))) << family.model_type;
}

}  // namespace
}  // namespace hooked::families_test
