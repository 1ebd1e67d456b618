#include "hooked/analysis/attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/random_config.h"
#include "tests/support/thrown_by.h"

namespace hooked::attribution_test {
namespace {

using testing::HasSubstr;

constexpr double kFloat64Tolerance = 1e-10;

double sum_of(const std::vector<Attribution>& rows) {
  double sum = 0;
  for (const auto& row : rows) sum += row.logits;
  return sum;
}

void expect_rows_add_up(const HookedTransformer& model, Grain grain) {
  const auto tokens = random_row(6, model.config().d_vocab, 4);
  const auto run = model.run_with_cache(tokens);
  for (const std::int64_t position : {-1, 2}) {
    const auto logits = run.logits().select(1, position)[0];
    const auto difference = direct_logit_attribution(
        model, run.cache, {.answer = 3, .against = 5, .grain = grain, .position = position});
    EXPECT_NEAR(sum_of(difference), (logits[3] - logits[5]).item<double>(), kFloat64Tolerance);
    const auto alone =
        direct_logit_attribution(model, run.cache, {.answer = 3, .grain = grain, .position = position});
    EXPECT_NEAR(sum_of(alone), logits[3].item<double>(), kFloat64Tolerance);
  }
}

struct Variant {
  const char* name;
  NormKind norm;
  WeightProcessing processing;
};

class AttributionOf : public testing::TestWithParam<std::tuple<Variant, Grain>> {};

TEST_P(AttributionOf, RowsAddUpToTheLogits) {
  const auto& [variant, grain] = GetParam();
  auto config = two_layer_config();
  config.norm = config.final_norm = variant.norm;
  expect_rows_add_up(random_model_of(config, variant.processing), grain);
}

INSTANTIATE_TEST_SUITE_P(
    Norms, AttributionOf,
    testing::Combine(testing::Values(Variant{"layer_norm", NormKind::layer_norm, WeightProcessing::none()},
                                     Variant{"layer_norm_folded", NormKind::layer_norm, {}},
                                     Variant{"rms_norm", NormKind::rms_norm, WeightProcessing::none()},
                                     Variant{"rms_norm_folded", NormKind::rms_norm, {}},
                                     Variant{"no_norm", NormKind::none, WeightProcessing::none()}),
                     testing::Values(Grain::layer, Grain::head)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) +
             (std::get<1>(info.param) == Grain::head ? "_head" : "_layer");
    });

class AttributionOfRandomConfig : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AttributionOfRandomConfig, RowsAddUpOrAreRefused) {
  const auto config = random_config(GetParam());
  const auto model = random_model_of(config);
  for (const auto grain : {Grain::layer, Grain::head}) {
    const bool normed = config.norm != NormKind::none;
    const bool exact = config.unembedding->soft_cap == 0 && !config.has_mlm_head() &&
                       !config.norms_stream() &&
                       !(normed && grain == Grain::head && config.norm_place != NormPlace::pre);
    if (exact) {
      expect_rows_add_up(model, grain);
    } else {
      const auto cache = model.run_with_cache(random_row(6, config.d_vocab, 4)).cache;
      EXPECT_THROW(direct_logit_attribution(model, cache, {.answer = 3, .grain = grain}), HookError);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AttributionOfRandomConfig, testing::Range<std::uint64_t>(0, 40));

TEST(Attribution, NamesItsParts) {
  const auto model = random_model_of(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  std::vector<std::string> parts;
  for (const auto& [part, logits] : direct_logit_attribution(model, cache, {.answer = 1}))
    parts.push_back(part);
  EXPECT_THAT(parts, testing::ElementsAre("embed", "pos_embed", "attn 0", "mlp 0", "attn 1", "mlp 1",
                                          "final norm bias", "unembed bias"));
  const auto by_head = direct_logit_attribution(model, cache, {.answer = 1, .grain = Grain::head});
  EXPECT_EQ(by_head[2].part, "head 0.0");
  EXPECT_EQ(by_head[6].part, "attn bias 0");
}

TEST(Attribution, RefusesWhereNoSplitIsExact) {
  const auto text_for = [](const ModelConfig& config, Grain grain) {
    const auto model = random_model_of(config);
    const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
    return text_thrown_by<HookError>(
        [&] { direct_logit_attribution(model, cache, {.answer = 1, .grain = grain}); });
  };
  auto capped = two_layer_config();
  capped.unembedding->soft_cap = 30;
  EXPECT_THAT(text_for(capped, Grain::layer), HasSubstr("soft cap of 30"));
  auto output_normed = two_layer_config();
  output_normed.norm_place = NormPlace::output;
  EXPECT_THAT(text_for(output_normed, Grain::head), HasSubstr("use Grain::layer"));
  auto post = two_layer_config();
  post.norm_place = NormPlace::post;
  post.final_norm = NormKind::none;
  EXPECT_THAT(text_for(post, Grain::layer), HasSubstr("norm_place post"));
}

TEST(Attribution, SaysWhatIsMissing) {
  const auto model = random_model_of(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4), act::resid_post).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_logit_attribution(model, cache, {.answer = 1}); }),
              HasSubstr("ln_final.hook_scale"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_logit_attribution(model, cache, {.answer = 11}); }),
              testing::AllOf(HasSubstr("token id 11"), HasSubstr("0 to 10")));
}

}  // namespace
}  // namespace hooked::attribution_test
