#include "hooked/analysis/direct_path.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hooked/core/error.h"
#include "hooked/hooks/edit.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/thrown_by.h"

namespace hooked::direct_path_test {
namespace {

using testing::HasSubstr;

ModelConfig three_layers() {
  ModelConfig config = two_layer_config();
  config.n_layers = 3;
  return config;
}

/// The score of one path by plain algebra: the later head's queries, keys or values plus what the difference
/// becomes behind a norm whose scale stays.
double by_hand(const HookedTransformer& model, const at::Tensor& corrupted, const DirectPathOptions& options,
               const ActivationCache& clean, HeadPlace source, HeadPlace end) {
  const auto cache = model.run_with_cache(corrupted, act::everything).cache;
  const ModelConfig& config = model.config();
  const auto from = static_cast<std::int32_t>(source.layer), to = static_cast<std::int32_t>(end.layer);
  const at::Tensor z = clean[act::z(from).head(source.head)] - cache[act::z(from).head(source.head)];
  at::Tensor delta = at::matmul(z, model.weights().W_O(from)[source.head]);  // [1, pos, d_model]
  const auto normed = [&](const at::Tensor& x, const at::Tensor& scale, const at::Tensor& w) {
    const at::Tensor centred = config.norm == NormKind::layer_norm ? x - x.mean(-1, true) : x;
    return centred / scale * w;
  };
  if (config.norm_place == NormPlace::output || config.norm_place == NormPlace::both)
    delta = normed(delta, cache[act::ln1_post_scale(from)],
                   model.weights()["blocks." + std::to_string(from) + ".ln1_post.w"]);
  if (config.norm_place != NormPlace::output)
    delta = normed(delta, cache[act::ln1_scale(to)], model.weights().ln1(to).w);
  const std::int64_t group = config.n_heads / config.n_kv_heads;
  const bool of_queries = options.input == HeadInput::query;
  const act::BlockSite site = of_queries ? act::q : options.input == HeadInput::key ? act::k : act::v;
  const at::Tensor weight = of_queries                        ? model.weights().W_Q(to)[end.head]
                            : options.input == HeadInput::key ? model.weights().W_K(to, end.head * group)
                                                              : model.weights().W_V(to, end.head * group);
  const Edit edit = add(site(to).head(end.head), at::matmul(delta, weight));
  return options.sweep.metric.all().front().score(model, corrupted, {.edits = {edit}})[0].item<double>();
}

struct PathModel {
  const char* name;
  ModelConfig config;
};

std::vector<PathModel> models() {
  ModelConfig rms = three_layers(), grouped = three_layers(), output = three_layers(), both = three_layers();
  for (ModelConfig* config : {&rms, &grouped, &output, &both})
    config->norm = config->final_norm = NormKind::rms_norm;
  grouped.n_kv_heads = 2;
  output.norm_place = NormPlace::output;
  both.norm_place = NormPlace::both;
  return {{"layer_norm", three_layers()},
          {"rms_norm", rms},
          {"grouped", grouped},
          {"output_norm", output},
          {"both_norms", both}};
}

class DirectPathOf : public testing::TestWithParam<PathModel> {};

TEST_P(DirectPathOf, EveryPathIsWhatAlgebraSays) {
  const auto model = random_model_of(GetParam().config);
  const at::Tensor clean_tokens = random_row(5, 11, 1), corrupted = random_row(5, 11, 2);
  const auto clean = model.run_with_cache(clean_tokens).cache;
  for (const HeadInput input : {HeadInput::query, HeadInput::key, HeadInput::value}) {
    const DirectPathOptions options{
        .input = input,
        .sweep = {.from = clean, .into = corrupted, .metric = logit_difference(3, 7), .tokens_per_run = 20}};
    const auto grid = direct_path(model, options);
    const std::int64_t ends = input == HeadInput::query ? 4 : GetParam().config.n_kv_heads;
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
            const double alone = by_hand(model, corrupted, options, clean, {sl, sh}, {dl, dh});
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

INSTANTIATE_TEST_SUITE_P(Models, DirectPathOf, testing::ValuesIn(models()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DirectPath, EachRowHasItsOwn) {
  const auto model = random_model_of(three_layers());
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
  const auto model = random_model_of(three_layers());
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
  const auto bert = random_model_of(post);
  options.sweep.site.reset();
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_path(bert, options); }),
              HasSubstr("norms on the stream itself"));
}

}  // namespace
}  // namespace hooked::direct_path_test
