// Half precision against transformers': how far logits are from those that the same rounded weights give in
// float64, and how often routers choose other experts than in float64, compared with what transformers does
// in the same dtype (tests/golden/half_precision.json; makers/half_precision.py says what it holds).
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sort.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/tensor_text.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/describe.h"
#include "tests/support/goldens.h"

namespace hooked::golden_test {
namespace {

constexpr double kMostOfOneCase = 1.3;
constexpr double kMedian = 1.0;
// As in makers/half_precision.py.
constexpr std::int64_t kSeeds = 32, kFirstToken = 4;

constexpr std::array kHalfDtypes = {at::kBFloat16, at::kHalf};

/// How far a run in half precision is from float64 with the same rounded weights.
struct Distance {
  double error = 0.0;        ///< mean |difference of logits| over real tokens
  double error_alike = 0.0;  ///< the same over the tokens of each row before the first with another choice
  std::int64_t chosen_otherwise = 0;  ///< real tokens that some router sends to other experts
};

const nlohmann::json& record() {
  static const auto tables = [] {
    std::ifstream file(std::string(HOOKED_SOURCE_DIR) + "/tests/golden/half_precision.json");
    return nlohmann::json::parse(file);
  }();
  return tables;
}

bool is_mixture(const std::string& name) { return record().at("mixtures").contains(name); }

/// The same for transformers. `dtype` is an index into kHalfDtypes.
Distance recorded_distance(const std::string& name, std::size_t dtype) {
  const auto error = record().at("error").at(name).at(dtype).get<double>();
  if (!is_mixture(name)) return {.error = error, .error_alike = error};
  const auto& of_mixture = record().at("mixtures").at(name).at(dtype);
  return {.error = error, .error_alike = of_mixture.at(0), .chosen_otherwise = of_mixture.at(1)};
}

/// The golden's rows once for each seed, with all tokens shifted in the vocabulary, except a padding token
/// by which transformers counts positions.
Input moved_on(const GoldenCase& of, const GoldenRun& golden, std::int64_t vocabulary) {
  const auto repeated = [](const at::Tensor& rows) {
    return rows.defined() ? rows.repeat({kSeeds, 1}) : rows;
  };
  const auto moved = [&](const at::Tensor& tokens) {
    if (!tokens.defined()) return tokens;
    std::vector<at::Tensor> rows;
    for (std::int64_t seed = 0; seed < kSeeds; ++seed)
      rows.push_back(
          with_padding_of(of, tokens, kFirstToken + (tokens + seed).remainder(vocabulary - kFirstToken)));
    return at::cat(rows);
  };
  return {moved(golden.tokens),
          {.attention_mask = repeated(golden.attention_mask),
           .token_types = repeated(golden.token_types),
           .decoder = {.tokens = moved(golden.decoder_tokens)}}};
}

/// A router's choice, [batch, pos, numbers that must be equal]: its experts, and for a sparse mixer also
/// among how many near experts each weight is shared (with k of them it is about 1 / k).
at::Tensor choice(const ActivationCache& cache, const ActivationName& indices, RouterKind router) {
  const at::Tensor experts = std::get<0>(at::sort(cache.entry(indices).value(), -1));
  if (router != RouterKind::sparse_mixer) return experts;
  ActivationName of_weights = indices;
  of_weights.site = Site::expert_weights;
  const at::Tensor weights = cache.entry(of_weights).value().gather(-1, experts);
  return at::cat({experts, weights.reciprocal().round().to(at::kLong)}, -1);
}

/// [batch, pos]: where some router chose differently in the two runs.
at::Tensor chosen_otherwise(const ActivationCache& one, const ActivationCache& other, RouterKind router) {
  at::Tensor differs;
  for (const ActivationName& name : one.names()) {
    if (name.site != Site::expert_indices) continue;
    const at::Tensor here = choice(one, name, router).ne(choice(other, name, router)).any(-1);
    differs = differs.defined() ? differs.logical_or(here) : here;
  }
  return differs;
}

Distance measure(const GoldenCase& golden, at::ScalarType dtype) {
  const auto model = HookedTransformer::load(golden.folder().string(),
                                             {.dtype = dtype, .processing = WeightProcessing::none()});
  const ModelConfig& config = model.config();
  const Input input = moved_on(golden, read_golden(golden), config.d_vocab);
  const auto exact = HookedTransformer::from_state_dict(
      model.state_dict(), config, {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  RunOptions options;
  if (config.experts) options.capture = act::expert_indices | act::expert_weights;
  const RunResult run = model.run(input, options), exact_run = exact.run(input, options);
  const at::Tensor error =
      (run.logits().to(at::kDouble) - exact_run.logits()).abs().mean(-1);  // [batch, pos]
  const at::Tensor& mask = input.main_mask();
  const at::Tensor real = mask.defined() ? mask.ne(0) : at::ones_like(error, at::kBool);
  const auto mean_over = [&](const at::Tensor& tokens) {
    return error.masked_select(tokens).mean().item<double>();
  };
  if (!config.experts) return {mean_over(real), mean_over(real), 0};
  const at::Tensor otherwise =
      chosen_otherwise(run.cache, exact_run.cache, config.experts->router).logical_and(real);
  return {mean_over(real), mean_over(real.logical_and(otherwise.cumsum(-1).eq(0))),
          otherwise.sum().item<std::int64_t>()};
}

struct Comparison {
  Distance ours, theirs;
};

/// The result of a case in a dtype. Cached: the median and the sums need all of them.
const Comparison& compared(const std::string& name, std::size_t dtype) {
  static std::map<std::pair<std::string, std::size_t>, Comparison> known;
  const auto [place, is_new] = known.try_emplace({name, dtype});
  if (is_new)
    place->second = {measure(golden_case(name), kHalfDtypes[dtype]), recorded_distance(name, dtype)};
  return place->second;
}

/// Whether a count is at most another one up to chance: three deviations of the difference.
testing::AssertionResult no_more_often(std::int64_t ours, std::int64_t theirs) {
  const double most = static_cast<double>(theirs) + 3.0 * std::sqrt(static_cast<double>(ours + theirs));
  if (static_cast<double>(ours) <= most) return testing::AssertionSuccess();
  return testing::AssertionFailure() << ours
                                     << " tokens with other experts than in float64, transformers has "
                                     << theirs;
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& [name, errors] : record().at("error").items()) names.push_back(name);
  return names;
}

std::vector<std::string> families() {
  std::set<std::string> names;
  for (const std::string& name : cases()) names.insert(golden_case(name).family);
  return {names.begin(), names.end()};
}

class HalfPrecision : public testing::TestWithParam<std::string> {};

TEST_P(HalfPrecision, IsAsNearToFloat64AsTransformers) {
  for (const std::string& name : cases()) {
    if (golden_case(name).family != GetParam()) continue;
    for (std::size_t dtype = 0; dtype < kHalfDtypes.size(); ++dtype) {
      SCOPED_TRACE(name + " in " + std::string(dtype_text(kHalfDtypes[dtype])));
      const auto& [ours, theirs] = compared(name, dtype);
      EXPECT_LE(ours.error_alike / theirs.error_alike, kMostOfOneCase);
      EXPECT_TRUE(no_more_often(ours.chosen_otherwise, theirs.chosen_otherwise));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, HalfPrecision, testing::ValuesIn(families()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

// Every family of a checkpoint that transformers recorded takes part, and every mixture as one.
TEST(HalfPrecisionOfAllFamilies, NoneIsLeftOut) {
  std::set<std::string> missing;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.oracle.starts_with("transformers") && !golden.native()) missing.insert(golden.family);
  }
  for (const std::string& family : families()) missing.erase(family);
  missing.erase("transformer_lens");
  EXPECT_TRUE(missing.empty()) << *missing.begin();
  for (const std::string& name : cases()) {
    EXPECT_EQ(is_mixture(name), describe(golden_case(name).folder().string()).config.n_experts() > 0) << name;
  }
}

TEST(HalfPrecisionOfAllFamilies, IsNearerInTheMedian) {
  for (std::size_t dtype = 0; dtype < kHalfDtypes.size(); ++dtype) {
    std::vector<double> ratios;
    for (const std::string& name : cases()) {
      const auto& [ours, theirs] = compared(name, dtype);
      ratios.push_back(ours.error / theirs.error);
    }
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::ranges::nth_element(ratios, middle);
    EXPECT_LE(*middle, kMedian) << dtype_text(kHalfDtypes[dtype]);
  }
}

// Near ties are rare in one case. The sum of all shows a loss of precision that doubles their number.
TEST(HalfPrecisionOfAllFamilies, RoutersChooseAsInFloat64AsOftenAsTransformers) {
  for (std::size_t dtype = 0; dtype < kHalfDtypes.size(); ++dtype) {
    std::int64_t ours = 0, theirs = 0;
    for (const std::string& name : cases()) {
      ours += compared(name, dtype).ours.chosen_otherwise;
      theirs += compared(name, dtype).theirs.chosen_otherwise;
    }
    EXPECT_TRUE(no_more_often(ours, theirs)) << dtype_text(kHalfDtypes[dtype]);
  }
}

}  // namespace
}  // namespace hooked::golden_test
