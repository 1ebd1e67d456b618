#include "hooked/analysis/direct_path.h"

#include "tests/analysis/direct_path_by_hand.h"
#include "tests/support/tiny_model.h"

namespace hooked::direct_path_test {
namespace {

ModelConfig three_layers() {
  ModelConfig config = two_layer_config();
  config.n_layers = 3;
  return config;
}

ModelConfig with_rms_norms() {
  ModelConfig config = three_layers();
  config.norm = config.final_norm = NormKind::rms_norm;
  return config;
}

const ConfigKind kModels[] = {
    {"layer_norm", three_layers, [](ModelConfig&) {}},
    {"rms_norm", with_rms_norms, [](ModelConfig&) {}},
    {"grouped", with_rms_norms, [](ModelConfig& c) { c.n_kv_heads = 2; }},
    {"output_norm", with_rms_norms, [](ModelConfig& c) { c.norm_place = NormPlace::output; }},
    {"both_norms", with_rms_norms, [](ModelConfig& c) { c.norm_place = NormPlace::both; }},
};

class DirectPathOf : public testing::TestWithParam<ConfigKind> {};

TEST_P(DirectPathOf, EveryPathIsWhatAlgebraSays) {
  const auto model = random_model(GetParam().config());
  const at::Tensor clean_tokens = random_row(5, 11, 1), corrupted = random_row(5, 11, 2);
  const auto clean = model.run_with_cache(clean_tokens).cache;
  const PathPair pair{corrupted, clean, model.run_with_cache(corrupted).cache};
  for (const HeadInput input : {HeadInput::query, HeadInput::key, HeadInput::value}) {
    const DirectPathOptions options{
        .input = input,
        .sweep = {.from = clean, .into = corrupted, .metric = logit_difference(3, 7), .tokens_per_run = 20}};
    const auto grid = direct_path(model, options);
    const std::int64_t ends = input == HeadInput::query ? 4 : GetParam().config().n_kv_heads;
    ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({3, 4, 3, ends}));
    double largest = 0;
    for (std::int64_t sl = 0; sl < 3; ++sl) {
      for (std::int64_t sh = 0; sh < 4; ++sh) {
        for (std::int64_t dl = 0; dl < 3; ++dl) {
          for (std::int64_t dh = 0; dh < ends; ++dh) {
            const double made = grid.at({sl, sh, dl, dh});
            if (dl <= sl) {
              EXPECT_TRUE(std::isnan(made));
              continue;
            }
            const double alone = path_by_hand(model, pair, options, {sl, sh}, {dl, dh});
            EXPECT_NEAR(made, alone, 1e-9) << sl << '.' << sh << " -> " << dl << '.' << dh;
            largest = std::max(largest, std::abs(alone - grid.at({0, 0, 1, 0})));
          }
        }
      }
    }
    EXPECT_GT(largest, 1e-5) << "no path changed anything";
    DirectPathOptions one = options;
    one.source = HeadPlace{-2, 3};
    const auto from_one = direct_path(model, one);
    ASSERT_EQ(from_one.values().sizes(), at::IntArrayRef({3, ends}));
    EXPECT_NEAR(from_one.at({2, 1}), grid.at({1, 3, 2, 1}), 1e-10);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DirectPathOf, testing::ValuesIn(kModels), named);

TEST(DirectPath, EachRowHasItsOwn) {
  const auto model = random_model(three_layers());
  const at::Tensor clean = at::cat({random_row(5, 11, 1), random_row(5, 11, 3)}),
                   corrupted = at::cat({random_row(5, 11, 2), random_row(5, 11, 4)});
  DirectPathOptions options{.source = HeadPlace{0, 1},
                            .sweep = {.from = model.run_with_cache(clean).cache,
                                      .into = corrupted,
                                      .metric = logit(Answers::by_row({3, 4}))}};
  const auto grid = direct_path(model, options);
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({2, 3, 4}));
  options.sweep.from = model.run_with_cache(clean.narrow(0, 1, 1)).cache;
  options.sweep.into = corrupted.narrow(0, 1, 1);
  options.sweep.metric = logit(4);
  EXPECT_NEAR(grid.at({1, 2, 3}), direct_path(model, options).at({2, 3}), 1e-10);
}

TEST(DirectPath, RefusesWhatHasNoPaths) {
  const auto model = random_model(three_layers());
  const at::Tensor row = random_row(5, 11, 1);
  DirectPathOptions options{
      .source = HeadPlace{0, 4},
      .sweep = {.from = model.run_with_cache(row).cache, .into = row, .metric = logit(3)}};
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_path(model, options); }),
              HasSubstr("there is no head 4; expected -4 to 3"));
  options.source.reset();
  options.sweep.site = act::z;
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_path(model, options); }), HasSubstr("neither `site`"));
  ModelConfig post = three_layers();
  post.norm_place = NormPlace::post;
  post.final_norm = NormKind::none;
  const auto bert = random_model(post);
  options.sweep.site.reset();
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_path(bert, options); }),
              HasSubstr("norms on the stream itself"));
  ModelConfig scaled = three_layers();
  scaled.layer_scale = true;
  const auto numbered = random_model(scaled);
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_path(numbered, options); }), HasSubstr("layer_scale"));
}

}  // namespace
}  // namespace hooked::direct_path_test
