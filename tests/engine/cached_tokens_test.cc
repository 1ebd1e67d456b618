// A cache knows which tokens its columns stand for: `last` and padding in what is read from it.
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "tests/engine/small_models.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::cached_tokens_test {
namespace {

constexpr AxisIndex::Last kLast{};

// Three rows of 5, 2 and 3 real tokens, padded on the right, the left and both sides.
class CachedTokens : public testing::Test {
 protected:
  CachedTokens() {
    mask_ = at::tensor({1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({3, 5});
    mask_[1] = at::tensor({0, 0, 0, 1, 1}, at::kLong);
    mask_[2] = at::tensor({0, 1, 1, 1, 0}, at::kLong);
    input_ = {random_tokens(model_.config(), {3, 5}), {.attention_mask = mask_}};
  }

  static at::Tensor last_of(const at::Tensor& value) {
    return at::stack({value[0][4], value[1][4], value[2][3]});
  }

  HookedTransformer model_ = random_model();
  at::Tensor mask_;
  Input input_ = at::Tensor();
};

TEST_F(CachedTokens, LastIsEachRowsLastRealToken) {
  const auto run = model_.run_with_cache(input_);
  const at::Tensor resid = run.cache[act::resid_post(1)];
  EXPECT_TRUE(at::equal(run.cache[act::resid_post(1).pos(kLast)], last_of(resid)));
  EXPECT_TRUE(at::equal(run.cache["blocks.1.hook_resid_post[pos=last]"], last_of(resid)));
  EXPECT_TRUE(at::equal(run.cache["resid_post1[pos=last]"], last_of(resid)));
  const at::Tensor pattern = run.cache[act::pattern(0)];
  EXPECT_TRUE(at::equal(run.cache[act::pattern(0).pos(kLast).head(2)], last_of(pattern.select(1, 2))));
  // The same token as the option of the run keeps.
  const auto kept = model_.run_with_cache(input_, act::resid_post, {.keep = {.positions = kLast}});
  const auto expect_last = [&](const at::Tensor& value) {  // other fused operations, so the last bits differ
    EXPECT_LT(relative_difference(value, last_of(resid)), kDoubleTolerance);
  };
  expect_last(kept.cache[act::resid_post(1)].squeeze(1));
  expect_last(kept.cache[act::resid_post(1).pos(kLast)]);
  EXPECT_TRUE(at::equal(kept.cache.entry(act::resid_post(1).name()).row_positions,
                        at::tensor({4, 4, 3}, at::kLong).unsqueeze(1)));
}

TEST_F(CachedTokens, WithoutPaddingLastIsTheLastColumn) {
  const auto run = model_.run_with_cache(input_.tokens);
  EXPECT_TRUE(at::equal(run.cache["resid_post0[pos=last]"], run.cache["resid_post0[pos=-1]"]));
  ASSERT_TRUE(run.cache.tokens());
  EXPECT_FALSE(run.cache.tokens()->mask.defined());
  EXPECT_EQ(run.cache.tokens()->end, 5);
  EXPECT_FALSE(run.cache.tokens(Stack::encoder));
}

TEST_F(CachedTokens, RowsDevicesAndFilesKeepWhatIsKnown) {
  const auto run = model_.run_with_cache(input_);
  const at::Tensor expected = last_of(run.cache[act::resid_post(0)]);
  const ActivationCache row = run.cache.row(-1);
  EXPECT_TRUE(at::equal(row["resid_post0[pos=last]"][0], expected[2]));
  EXPECT_TRUE(at::equal(run.cache.to(c10::Device("cpu"))["resid_post0[pos=last]"], expected));
  const TempFolder folder;
  run.cache.save(folder / "cache.safetensors");
  const ActivationCache loaded = ActivationCache::load(folder / "cache.safetensors");
  EXPECT_TRUE(at::equal(loaded["resid_post0[pos=last]"], expected));
  EXPECT_TRUE(at::equal(loaded.tokens()->mask, mask_.to(at::kBool)));
  const auto kept = model_.run_with_cache(input_, act::resid_post, {.keep = {.positions = kLast}});
  kept.cache.save(folder / "kept.safetensors");
  const ActivationCache kept_loaded = ActivationCache::load(folder / "kept.safetensors");
  EXPECT_TRUE(at::equal(kept_loaded["resid_post0[pos=last]"], kept.cache["resid_post0[pos=last]"]));
  EXPECT_LT(relative_difference(kept_loaded["resid_post0[pos=last]"], expected), kDoubleTolerance);
}

TEST_F(CachedTokens, WhatIsNotKnownOrNotKeptIsRefused) {
  ActivationCache made(model_.config().n_layers);
  made.insert({act::resid_post(0).name(), at::zeros({2, 3, 4})});
  EXPECT_NE(text_thrown_by<HookError>([&] { made["resid_post0[pos=last]"]; }).find("does not know where"),
            std::string::npos);
  const auto some = model_.run_with_cache(input_, act::resid_post,
                                          {.keep = {.positions = std::vector<std::int64_t>{0, 4}}});
  const std::string text = text_thrown_by<HookError>([&] { some.cache["resid_post0[pos=last]"]; });
  EXPECT_NE(text.find("the last token of row 2 stands at position 3, which was not kept"), std::string::npos)
      << text;
}

TEST_F(CachedTokens, AGenerationKnowsWhereItsRowsEnd) {
  const auto made = model_.generate(input_, {.max_new_tokens = 3, .capture = act::resid_post});
  const at::Tensor resid = made.cache[act::resid_post(2)];
  ASSERT_EQ(resid.size(1), 8);
  ASSERT_TRUE(made.cache.tokens());
  EXPECT_TRUE(at::equal(made.cache.tokens()->mask, made.attention_mask.to(at::kBool)));
  EXPECT_TRUE(at::equal(made.cache["resid_post2[pos=last]"],
                        resid.index({at::arange(3), made.cache.tokens()->last(3)})));
}

TEST_F(CachedTokens, BehindAPrefixPositionsAreAbsolute) {
  const auto first = model_.run(random_tokens(model_.config(), {1, 2}, 9), {.keep_prefix = true});
  const auto run = model_.run_with_cache({input_.tokens, {.attention_mask = mask_, .prefix = first.prefix}});
  EXPECT_TRUE(at::equal(run.cache["resid_post0[pos=last]"], last_of(run.cache[act::resid_post(0)])));
  EXPECT_TRUE(at::equal(run.cache.tokens()->last(3), at::tensor({6, 6, 5}, at::kLong)));
}

TEST_F(CachedTokens, LogitsOfPaddingAreRefused) {
  const std::string text =
      text_thrown_by<ShapeError>([&] { model_.run(input_, {.logit_positions = {{-1}}}); });
  EXPECT_NE(text.find("position -1 is padding in row 2, whose last token is at 3"), std::string::npos)
      << text;
  EXPECT_EQ(model_.run(input_, {.logit_positions = {{3, 4}}}).logits().size(1), 2) << "asked for by number";
}

TEST_F(CachedTokens, WritingIntoACachedTensorIsFoundAtTheNextRead) {
  const auto run = model_.run_with_cache(input_);
  at::Tensor z = run.cache[act::z(0)];
  EXPECT_NO_THROW(run.cache[act::z(0)]);
  z.zero_();
  EXPECT_NE(text_thrown_by<HookError>([&] { run.cache[act::z(0)]; }).find("written into this tensor"),
            std::string::npos);
  at::Tensor head = run.cache[act::z(1).head(0)];
  head.add_(1);
  EXPECT_THROW(run.cache[act::z(1)], HookError) << "a view writes as well";
  EXPECT_NO_THROW(run.cache[act::z(2)]);
}

TEST_F(CachedTokens, ARunIsTakenApartAsLogitsAndCache) {
  const auto [logits, cache] = model_.run_with_cache(input_, act::z);
  EXPECT_TRUE(at::equal(logits, model_(input_)));
  EXPECT_EQ(cache.size(), 3U);
  const auto stopped = model_.run_with_cache(input_, act::z, {.stop_at_layer = 1});
  EXPECT_NE(text_thrown_by<HookError>([&] { get<0>(stopped); }).find("read `residual()`"), std::string::npos);
  EXPECT_EQ(get<1>(stopped).size(), 1U);
}

}  // namespace
}  // namespace hooked::cached_tokens_test
