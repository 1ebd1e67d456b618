// Half precision against transformers': how far logits are from those that the same rounded weights give in
// float64, beside how far those of transformers are in the same dtype (tests/golden/half_precision.json).
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "hooked/core/tensor_text.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/describe.h"
#include "tests/support/goldens.h"

namespace hooked::golden_test {
namespace {

constexpr double kMostOfOneCase = 1.3;
constexpr double kMedian = 1.0;
// As makers/half_precision.py has them.
constexpr std::int64_t kSeeds = 32, kFirstToken = 4;

const nlohmann::json& recorded_errors() {
  static const auto errors = [] {
    std::ifstream file(std::string(HOOKED_SOURCE_DIR) + "/tests/golden/half_precision.json");
    return nlohmann::json::parse(file);
  }();
  return errors;
}

/// The golden's rows once for each seed, with all tokens moved on in the vocabulary, but for a padding token
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

/// The mean of |logits - float64 logits of the same rounded weights| over real tokens.
double mean_error(const GoldenCase& golden, at::ScalarType dtype) {
  const GoldenRun recorded = read_golden(golden);
  const auto model = HookedTransformer::load(golden.folder().string(),
                                             {.dtype = dtype, .processing = WeightProcessing::none()});
  const Input input = moved_on(golden, recorded, model.config().d_vocab);
  const auto exact = HookedTransformer::from_state_dict(
      model.state_dict(), model.config(), {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  const at::Tensor error =
      (model.run(input).logits().to(at::kDouble) - exact.run(input).logits()).abs().mean(-1);  // [batch, pos]
  const at::Tensor& mask = input.main_mask();
  return (mask.defined() ? error.masked_select(mask.ne(0)) : error).mean().item<double>();
}

/// Ours over theirs, of a case in a dtype. Remembered: the median is asked of all of them.
double ratio(const std::string& name, at::ScalarType dtype) {
  static std::map<std::pair<std::string, at::ScalarType>, double> known;
  const auto [place, is_new] = known.emplace(std::pair(name, dtype), 0.0);
  if (is_new) {
    const auto theirs = recorded_errors().at(name).at(std::string(dtype_text(dtype))).get<double>();
    place->second = mean_error(golden_case(name), dtype) / theirs;
  }
  return place->second;
}

constexpr std::array kHalfDtypes = {at::kBFloat16, at::kHalf};

std::vector<std::string> families() {
  std::set<std::string> names;
  for (const auto& [name, errors] : recorded_errors().items()) names.insert(golden_case(name).family);
  return {names.begin(), names.end()};
}

std::vector<std::string> cases_of(const std::string& family) {
  std::vector<std::string> names;
  for (const auto& [name, errors] : recorded_errors().items()) {
    if (golden_case(name).family == family) names.push_back(name);
  }
  return names;
}

class HalfPrecision : public testing::TestWithParam<std::string> {};

double median(std::vector<double> ratios) {
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

// One token whose experts are others than in float64 weighs as much as a thousand roundings, and it may be
// ours or theirs. So of a family of mixtures it is the median of its cases and dtypes that is held.
TEST_P(HalfPrecision, IsAsNearToFloat64AsTransformers) {
  std::vector<double> of_mixtures;
  for (const std::string& name : cases_of(GetParam())) {
    const bool mixture = describe(golden_case(name).folder().string()).config.n_experts() > 0;
    for (const at::ScalarType dtype : kHalfDtypes) {
      if (mixture) {
        of_mixtures.push_back(ratio(name, dtype));
      } else {
        EXPECT_LE(ratio(name, dtype), kMostOfOneCase) << name << " in " << dtype_text(dtype);
      }
    }
  }
  if (!of_mixtures.empty()) {
    EXPECT_LE(median(of_mixtures), kMostOfOneCase);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, HalfPrecision, testing::ValuesIn(families()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

// Every family of a checkpoint that transformers recorded takes part.
TEST(HalfPrecisionOfAllFamilies, NoneIsLeftOut) {
  std::set<std::string> missing;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.oracle.starts_with("transformers") && !golden.native()) missing.insert(golden.family);
  }
  for (const std::string& family : families()) missing.erase(family);
  missing.erase("transformer_lens");
  EXPECT_TRUE(missing.empty()) << *missing.begin();
}

TEST(HalfPrecisionOfAllFamilies, IsNearerInTheMedian) {
  for (const at::ScalarType dtype : kHalfDtypes) {
    std::vector<double> ratios;
    for (const std::string& family : families()) {
      for (const std::string& name : cases_of(family)) ratios.push_back(ratio(name, dtype));
    }
    EXPECT_LE(median(ratios), kMedian) << dtype_text(dtype);
  }
}

}  // namespace
}  // namespace hooked::golden_test
