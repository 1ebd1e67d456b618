// A default load of every family gives what its checkpoint says: in the dtypes that models are loaded
// in, step by step, and with heads that mask padding or hold rows that nobody uses.

#include <filesystem>

#include "hooked/analysis/logit_lens.h"
#include "hooked/engine/hooked_transformer.h"
#include "loading/load/identify.h"
#include "loading/plan/plan_weights.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/test.h"

namespace hooked::processed_families_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMasked = 2;  // the last entries of the vocabulary
constexpr double kFloat32Tolerance = 1e-5;

/// A case of each family that has logits and whose file holds them as numbers.
std::vector<std::string> families() {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.native() || seen.contains(golden.family) || padding_token(golden) ||
        !std::filesystem::exists(golden.folder() / "model.safetensors") ||
        !std::filesystem::exists(golden.folder() / "config.json")) {
      continue;
    }
    const IdentifiedModel model = identify(golden.folder());
    if (model.read.storage || !model.read.config.has_unembedding()) continue;
    seen.insert(golden.family);
    names.push_back(golden.name);
  }
  return names;
}

Input input_of(const ModelConfig& config) {
  const std::int64_t used = std::min(config.d_vocab, config.d_vocab_out()) - kMasked;
  const at::Tensor tokens = (at::arange(14, at::kLong).view({2, 7}) * 5).remainder(used);
  if (!config.has_encoder()) return Input(tokens);
  return {tokens, {.decoder = {.tokens = tokens.narrow(1, 1, 4).contiguous()}}};
}

class ProcessedFamily : public CheckpointTensors, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { take(GetParam()); }

  HookedTransformer in(at::ScalarType dtype, const WeightProcessing& processing) const {
    return HookedTransformer::load(folder_.path().string(), {.dtype = dtype, .processing = processing});
  }
  HookedTransformer raw(at::ScalarType dtype) const { return in(dtype, WeightProcessing::none()); }
  HookedTransformer processed(at::ScalarType dtype) const {
    return HookedTransformer::load(folder_.path().string(), {.dtype = dtype});
  }

  /// The file's tensor that a weight is made from, and the name of that weight; nothing if it is not
  /// a single tensor, unchanged.
  std::optional<std::string> tensor_of(const std::string& weight) {
    const IdentifiedModel model = identify(written());
    const CheckpointReader reader = open_checkpoint(folder_.path());
    for (const TensorRecipe& recipe :
         plan_weights(source_tensors(reader), model.family, model.read).recipes) {
      if (recipe.target == weight && recipe.sources.size() == 1) return recipe.sources.front();
    }
    return std::nullopt;
  }
};

/// [batch, pos, vocab] float64.
at::Tensor log_probs(const HookedTransformer& model) {
  return at::log_softmax(model.run(input_of(model.config())).logits().to(at::kDouble), -1);
}

/// The largest difference among tokens likelier than e^-80.
double apart(const at::Tensor& one, const at::Tensor& other) {
  return (one - other).abs().masked_fill((other > -80.0).logical_not(), 0.0).max().item<double>();
}

/// The same for probabilities.
double probabilities_apart(const at::Tensor& one, const at::Tensor& other) {
  return (one.exp() - other.exp()).abs().max().item<double>();
}

TEST_P(ProcessedFamily, LogProbabilitiesStayInTheDtypeOfTheLoad) {
  written();
  const at::Tensor exact = log_probs(raw(at::kDouble)), single = log_probs(raw(at::kFloat));
  // Rounding alone costs this much; a model with large logits more.
  const double digits = std::max(apart(single, exact), kFloat32Tolerance);
  for (const ProcessingStep step : kProcessingSteps) {
    try {
      EXPECT_LT(apart(log_probs(in(at::kFloat, WeightProcessing::only({step}))), exact), 4 * digits)
          << processing_step_name(step);
    } catch (const ConfigError&) {  // it would change the function
    }
  }
  EXPECT_LT(apart(log_probs(processed(at::kFloat)), exact), 4 * digits);
  const HookedTransformer half = raw(at::kBFloat16);
  if (half.config().experts) return;  // rounding may choose other experts
  EXPECT_LT(apart(log_probs(processed(at::kBFloat16)), exact), 6 * apart(log_probs(half), exact) + 0.02);
}

TEST_P(ProcessedFamily, HeadsThatMaskPaddingKeepTheirProbabilities) {
  const auto bias = tensor_of("unembed.b_U");
  if (!bias) return;  // the family's head has none
  for (const double mask : {-kInfinity, -1e30, -1e9, -1e4}) {
    SCOPED_TRACE(mask);
    tensors_.at(*bias) = tensors_.at(*bias).clone();
    tensors_.at(*bias).slice(-1, -kMasked).fill_(mask);
    written();
    const HookedTransformer expected = raw(at::kFloat), model = processed(at::kFloat);
    const at::Tensor probabilities = log_probs(expected);
    EXPECT_FALSE(probabilities.isnan().any().item<bool>());
    EXPECT_LT(probabilities_apart(log_probs(model), probabilities), kFloat32Tolerance);
    const Input input = input_of(model.config());
    if (model.config().norm_place == NormPlace::pre && !model.config().has_mlm_head()) {
      const std::vector<std::int64_t> tokens{0, 1, model.config().d_vocab_out() - 1};
      const auto read = [&](const HookedTransformer& of) {
        return logit_lens(of, of.run_with_cache(input).cache, {.tokens = tokens}).probabilities.values();
      };
      EXPECT_LT((read(model) - read(expected)).abs().max().item<double>(), kFloat32Tolerance);
    }
    if (model.config().bidirectional(model.config().main_stack())) continue;
    const auto made = [&](const HookedTransformer& of) {
      return of.generate(input, {.max_new_tokens = 3, .sampling = {.greedy = true}});
    };
    const GenerateResult one = made(model), other = made(expected);
    EXPECT_TRUE(one.tokens.equal(other.tokens));
    EXPECT_LT(probabilities_apart(one.log_probs, other.log_probs), kFloat32Tolerance);
  }
}

TEST_P(ProcessedFamily, UnusedRowsOfNanStayAlone) {
  const bool tied = identify(written()).read.config.tied_unembedding();
  const auto name = tensor_of(tied ? "embed.W_E" : "unembed.W_U");
  if (!name) return;
  at::Tensor& weight = tensors_.at(*name);
  const std::int64_t vocab = raw(at::kFloat).config().d_vocab_out();
  weight = weight.clone();
  weight.slice(weight.size(0) >= vocab ? 0 : 1, vocab - 1, vocab).fill_(kNan);
  written();
  const auto used = [&](const HookedTransformer& model) {
    const at::Tensor logits = model.run(input_of(model.config())).logits();
    EXPECT_TRUE(logits.select(-1, vocab - 1).isnan().all().item<bool>());
    return at::log_softmax(logits.narrow(-1, 0, vocab - 1).to(at::kDouble), -1);
  };
  const at::Tensor expected = used(raw(at::kFloat)), got = used(processed(at::kFloat));
  EXPECT_FALSE(got.isnan().any().item<bool>());
  const double rounding = probabilities_apart(expected, used(raw(at::kDouble)));
  EXPECT_LT(probabilities_apart(got, expected), kFloat32Tolerance + rounding);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ProcessedFamily, testing::ValuesIn(families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hooked::processed_families_test
