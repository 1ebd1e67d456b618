// The engine against what transformers, TransformerLens and the definitions of training scripts computed with
// the same weights in float64 (tests/golden/README.md): every recorded activation, and no point that is
// neither recorded nor an exception with a reason.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "families/family.h"
#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/reference/conversion.h"
#include "tests/support/goldens.h"
#include "tests/support/relative_difference.h"
#include "tests/support/temp_folder.h"

namespace hooked::golden_test {
namespace {

constexpr double kToleranceFloat64 = 1e-9;
constexpr double kLogProbToleranceFloat64 = 1e-10;  // nats

std::vector<GoldenCase> cases_where(bool (*wanted)(const GoldenCase&)) {
  std::vector<GoldenCase> cases;
  std::ranges::copy_if(golden_cases(), std::back_inserter(cases), wanted);
  return cases;
}

HookedTransformer load(const GoldenCase& golden, const WeightProcessing& processing) {
  return HookedTransformer::load(golden.folder().string(), {.dtype = at::kDouble, .processing = processing});
}

/// The input of a golden run.
Input input_of(const GoldenRun& golden) {
  return {golden.tokens,
          {.attention_mask = golden.attention_mask,
           .token_types = golden.token_types,
           .decoder = {.tokens = golden.decoder_tokens}}};
}

/// The output is the last stream of a model without unembedding.
RunOptions options_of(const GoldenRun& golden) {
  return {.output = golden.has_logits() ? Output::logits : Output::residual};
}

at::Tensor output_of(const RunResult& result) {
  return result.output() == Output::logits ? result.logits() : result.residual();
}

/// The mask of the output's tokens: a decoder's are all real.
at::Tensor output_mask(const GoldenRun& golden) {
  return golden.decoder_tokens.defined() ? at::Tensor() : golden.attention_mask;
}

NamedTensors everything(const HookedTransformer& model, const GoldenRun& golden) {
  RunResult result = model.run_with_cache(input_of(golden), act::everything, options_of(golden));
  NamedTensors tensors = by_name(result.cache);
  if (golden.has_logits()) tensors["logits"] = result.logits();
  if (golden.outputs.contains("residual")) tensors["residual"] = result.residual();
  return tensors;
}

/// Whether `flat` is `shape` with two neighbouring axes merged.
bool two_axes_in_one(at::IntArrayRef shape, at::IntArrayRef flat) {
  if (shape.size() != flat.size() + 1) return false;
  for (std::size_t i = 0; i < flat.size() && flat.slice(0, i) == shape.slice(0, i); ++i) {
    if (flat[i] == shape[i] * shape[i + 1] && flat.slice(i + 1) == shape.slice(i + 2)) return true;
  }
  return false;
}

/// The recorded activations in the shapes of ours: modules of transformers keep heads concatenated,
/// [batch, pos, head * d_head], and some flatten the tokens of a batch, [batch * pos, ...].
RecordedTensors unflattened(RecordedTensors recorded, const NamedTensors& ours) {
  for (auto& [name, value] : recorded) {
    const auto found = ours.find(name);
    if (found == ours.end()) continue;
    const at::IntArrayRef shape = found->second.sizes();
    if (two_axes_in_one(shape, value.sizes())) value = value.reshaped(shape);
  }
  return recorded;
}

class Golden : public testing::TestWithParam<GoldenCase> {
 protected:
  testing::AssertionResult agrees(const NamedTensors& ours, const GoldenRun& golden) const {
    return agree(held_in_goldens(ours), unflattened(golden.outputs, ours),
                 {.tolerance = kToleranceFloat64,
                  .exceptions = GetParam().exceptions,
                  .attention_mask = output_mask(golden)});
  }

  /// The same of every activation of a run. If one does not agree, the message compares all with the plain
  /// model too, which knows each number.
  testing::AssertionResult all_agree(const HookedTransformer& model, const GoldenRun& golden) const {
    const NamedTensors ours = everything(model, golden);
    auto result = agrees(ours, golden);
    if (result) return result;
    Comparison how{.tolerance = kToleranceFloat64,
                   .exceptions = {{"residual", "an output, not a point"}},
                   .attention_mask = golden.attention_mask};
    if (golden.decoder_tokens.defined()) how.decoder_mask = at::Tensor();
    const auto plain = reference::forward_golden(model.config(), model.state_dict(), golden);
    const auto beside_plain = agree(ours, reference::to_tensors(plain), how);
    return result << "\nCompared with the plain model of tests/reference, "
                  << (beside_plain ? "all activations agree" : beside_plain.message());
  }
};

class RawGolden : public Golden {};

TEST_P(RawGolden, EveryActivationAgrees) {
  const GoldenRun golden = read_golden(GetParam());
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  EXPECT_EQ(model.family(), GetParam().family);
  ASSERT_EQ(model.config().has_unembedding(), golden.has_logits());
  EXPECT_TRUE(all_agree(model, golden));
}

TEST_P(RawGolden, PackedAndPlainFoldersComputeTheSameBits) {
  const GoldenRun golden = read_golden(GetParam());
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const TempFolder folder;
    const auto model = HookedTransformer::load(GetParam().folder().string(), {.dtype = dtype});
    model.save(folder / "plain");
    model.save(folder / "packed", {.packed = true});
    const auto output = [&](const char* name) {
      const auto loaded = HookedTransformer::load((folder / name).string());
      return output_of(loaded.run(input_of(golden), options_of(golden)));
    };
    EXPECT_TRUE(at::equal(output("packed"), output("plain"))) << dtype;
  }
}

// The dtypes of our own kernels; tests run this with every set of them. Near ties of a router
// may fall the other way, so it is the mean error that is small.
TEST_P(RawGolden, LowerPrecisionFollowsFloat64) {
  const GoldenRun golden = read_golden(GetParam());
  const auto output = [&](at::ScalarType dtype) {
    const auto model = HookedTransformer::load(GetParam().folder().string(),
                                               {.dtype = dtype, .processing = WeightProcessing::none()});
    const at::Tensor all = output_of(model.run(input_of(golden), options_of(golden))).to(at::kDouble);
    const at::Tensor mask = output_mask(golden);
    return mask.defined() ? all.index({mask.to(at::kBool)}) : all;
  };
  const at::Tensor exact = output(at::kDouble);
  const double size = exact.abs().mean().item<double>();
  for (const auto& [dtype, allowed] : {std::pair{at::kFloat, 1e-4}, std::pair{at::kBFloat16, 0.2}}) {
    EXPECT_LT((output(dtype) - exact).abs().mean().item<double>(), allowed * size) << dtype;
  }
}

// EveryActivationAgrees compares the logits of the weights as they are with the oracle's.
TEST_P(RawGolden, DefaultProcessingKeepsTheLogProbabilities) {
  const GoldenRun golden = read_golden(GetParam());
  const auto run = [&](const WeightProcessing& processing) -> NamedTensors {
    const at::Tensor output =
        output_of(load(GetParam(), processing).run(input_of(golden), options_of(golden)));
    // For a model without unembedding, processing must keep the last stream.
    return {{"output", golden.has_logits() ? at::log_softmax(output, -1) : output}};
  };
  EXPECT_TRUE(agree(run(WeightProcessing::all_that_apply()), run(WeightProcessing::none()),
                    {.tolerance = kLogProbToleranceFloat64, .attention_mask = output_mask(golden)}));
}

TEST_P(RawGolden, GreedyContinuationIsTheSame) {
  const GoldenRun golden = read_golden(GetParam());
  if (!golden.greedy.defined())
    GTEST_SKIP() << "none recorded: the context is shorter, or the model does not predict next tokens";
  // A decoder continues from its start token, whatever the encoder reads.
  const bool decodes = golden.decoder_tokens.defined();
  const std::int64_t given = decodes ? 1 : golden.tokens.size(1);
  const at::Tensor prompt = decodes ? golden.tokens.narrow(0, 0, 1) : golden.greedy.narrow(1, 0, given);
  for (const WeightProcessing& processing : {WeightProcessing::none(), WeightProcessing::all_that_apply()}) {
    // A state dict has only weights, and not the rules for tokens that some configs name: the recorded ones
    // are the likeliest.
    const HookedTransformer loaded = load(GetParam(), processing);
    const auto model = HookedTransformer::from_state_dict(
        loaded.state_dict(), loaded.config(), {.dtype = at::kDouble, .processing = WeightProcessing::none()});
    const GenerateOptions options{.max_new_tokens = golden.greedy.size(1) - given,
                                  .sampling = {.greedy = true},
                                  .stop = {.tokens = std::vector<std::int64_t>()}};
    EXPECT_TRUE(model.generate(prompt, options).tokens.equal(golden.greedy));
  }
}

// Row 0 keeps its length, row 1 loses its last tokens and is padded on one side, or has padding among its
// tokens.
TEST_P(RawGolden, PaddedBatchEqualsItsUnpaddedRows) {
  const GoldenRun golden = read_golden(GetParam());
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  constexpr std::int64_t kPadding = 3;
  const std::int64_t length = golden.tokens.size(1), kept = length - kPadding;
  const at::Tensor shorter = golden.tokens.narrow(0, 1, 1).narrow(1, 0, kept);
  // All tokens of one type, so that the types need no padding. In an encoder-decoder the encoder's side
  // is padded.
  const auto run = [&](const at::Tensor& tokens, const at::Tensor& mask, const at::Tensor& decoder_tokens) {
    return output_of(model.run({tokens, {.attention_mask = mask, .decoder = {.tokens = decoder_tokens}}},
                               options_of(golden)));
  };
  const auto row_alone = [&](const at::Tensor& tokens, std::int64_t row) {
    const at::Tensor& decoder = golden.decoder_tokens;
    return run(tokens, {}, decoder.defined() ? decoder.narrow(0, row, 1) : decoder);
  };
  const at::Tensor alone = row_alone(shorter, 1);
  const at::Tensor first = row_alone(golden.tokens.narrow(0, 0, 1), 0);
  const std::optional<std::int64_t> counted = padding_token(GetParam());
  // `before` of the row's tokens come before the padding.
  const auto padded = [&](std::int64_t before, std::int64_t padding, std::int64_t mask_there) {
    const auto around = [&](const at::Tensor& row, std::int64_t value) {
      return at::cat({row.narrow(1, 0, before), at::full({1, kPadding}, value, at::kLong),
                      row.narrow(1, before, kept - before)},
                     1);
    };
    const at::Tensor mask = around(at::ones({1, kept}, at::kLong), mask_there);
    return run(at::cat({golden.tokens.narrow(0, 0, 1), around(shorter, padding)}),
               at::cat({at::ones({1, length}, at::kLong), mask}), golden.decoder_tokens);
  };
  for (const std::int64_t before : {std::int64_t{0}, std::int64_t{1}, kept}) {
    const at::Tensor output = padded(before, counted.value_or(2), 0);
    EXPECT_LT(relative_difference(output.narrow(0, 0, 1), first), kToleranceFloat64);
    at::Tensor second = output.narrow(0, 1, 1);
    if (!golden.decoder_tokens.defined()) {
      second = at::cat({second.narrow(1, 0, before), second.narrow(1, before + kPadding, kept - before)}, 1);
    }
    EXPECT_LT(relative_difference(second, alone), kToleranceFloat64)
        << "padding behind " << before << " tokens";
  }
  if (!counted) return;
  // transformers counts a masked token, and gives a padding token that is not masked a row of its
  // own.
  const std::int64_t other = *counted == 2 ? 3 : 2;
  EXPECT_THROW(padded(0, other, 0), ShapeError);
  EXPECT_THROW(padded(1, other, 0), ShapeError);
  EXPECT_THROW(padded(1, *counted, 1), ShapeError);
  EXPECT_NO_THROW(padded(kept, other, 0)) << "nothing real follows";
}

// transformers counts the padding tokens of a decoder too.
TEST_P(RawGolden, ADecodersPaddingIsCountedAsTransformersDoes) {
  const GoldenRun golden = read_golden(GetParam());
  const std::optional<std::int64_t> counted = padding_token(GetParam());
  if (!golden.decoder_tokens.defined() || !counted) return;
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  at::Tensor decoder = golden.decoder_tokens.clone();
  decoder.select(1, 1).fill_(*counted);
  const auto run = [&](const at::Tensor& mask) {
    return model.run(
        {golden.tokens,
         {.attention_mask = golden.attention_mask, .decoder = {.tokens = decoder, .attention_mask = mask}}});
  };
  EXPECT_THROW(run({}), ShapeError);
  at::Tensor mask = at::ones_like(decoder);
  mask.select(1, 1).fill_(0);
  EXPECT_NO_THROW(run(mask));
}

INSTANTIATE_TEST_SUITE_P(Golden, RawGolden, testing::ValuesIn(golden_cases()), golden_test_name);

class ProcessedGolden : public Golden {};

TEST_P(ProcessedGolden, EveryActivationAgrees) {
  const GoldenRun golden = read_golden(GetParam(), "golden_processed");
  std::vector<ProcessingStep> steps;
  for (const std::string& name : *GetParam().processing) steps.push_back(parse_processing_step(name));
  const HookedTransformer model = load(GetParam(), WeightProcessing::only(steps));
  EXPECT_TRUE(all_agree(model, golden));
}

INSTANTIATE_TEST_SUITE_P(Golden, ProcessedGolden, testing::ValuesIn(cases_where([](const GoldenCase& g) {
                           return g.processing.has_value();
                         })),
                         golden_test_name);

class GoldenGradients : public Golden {};

TEST_P(GoldenGradients, EveryGradientAgrees) {
  const GoldenRun golden = read_golden(GetParam(), "gradients");
  const GoldenMetric metric = *GetParam().gradients;
  const auto logit_difference = [metric](const at::Tensor& logits) {
    const at::Tensor at_position = logits.select(0, metric.row).select(0, metric.position);
    return at_position.select(0, metric.answer) - at_position.select(0, metric.against);
  };
  const HookedTransformer model = load(GetParam(), WeightProcessing::none());
  const RunResult result =
      model.run({golden.tokens, {.attention_mask = golden.attention_mask}},
                {.gradients = GradientRequest{.of = act::defaults, .metric = logit_difference}});
  NamedTensors gradients;
  for (const auto& [name, value] : by_name(result.gradients)) gradients["grad." + name] = value;
  EXPECT_TRUE(agrees(gradients, golden));
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenGradients, testing::ValuesIn(cases_where([](const GoldenCase& g) {
                           return g.gradients.has_value();
                         })),
                         golden_test_name);

TEST(GoldenCases, EveryFamilyHasOne) {
  std::set<std::string> covered;
  for (const GoldenCase& golden : golden_cases()) covered.insert(golden.family);
  for (const Family& family : all_families())
    EXPECT_TRUE(covered.contains(std::string(family.model_type))) << family.model_type;
}

TEST(GoldenCases, AreTheFoldersThatAreThere) {
  std::set<std::string> listed, there;
  for (const GoldenCase& golden : golden_cases()) listed.insert(golden.name);
  for (const auto& folder : std::filesystem::directory_iterator(HOOKED_SOURCE_DIR "/tests/golden/cases"))
    there.insert(folder.path().filename());
  EXPECT_EQ(listed, there);
  EXPECT_EQ(listed.size(), golden_cases().size()) << "a name occurs twice";
}

}  // namespace
}  // namespace hooked::golden_test
