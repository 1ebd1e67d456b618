// Logits at some columns: the last block computes these only, where nobody watches the others.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/engine/small_models.h"
#include "tests/support/random_config.h"

namespace hooked::asked_columns_test {
namespace {

void expect_the_whole_runs_logits(at::ScalarType dtype, double tolerance) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    ModelConfig config = random_config(seed);
    config.dtype = dtype;
    // In float32 a router's near ties may fall otherwise.
    if (!config.has_unembedding() || (dtype == at::kFloat && config.experts)) continue;
    SCOPED_TRACE(seed);
    ++tried;
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 6});
    const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}, at::kLong).view({2, 6});
    for (const at::Tensor& real : {at::Tensor(), mask}) {
      Input input(tokens, {.attention_mask = real});
      if (config.has_encoder())
        input.decoder = {.tokens = random_tokens(config, {2, 6}, 5), .attention_mask = real};
      const at::Tensor whole = model(input);
      for (const std::vector<std::int64_t>& positions : {std::vector<std::int64_t>{-1}, {4, 2, 4}}) {
        const RunOptions asked{.logit_positions = positions};
        std::vector<at::Tensor> columns;
        for (const std::int64_t p : positions)
          columns.push_back(whole.slice(1, p < 0 ? p + 6 : p, p < 0 ? p + 7 : p + 1));
        const at::Tensor expected = at::cat(columns, 1);
        EXPECT_LT(relative_difference(model.run(input, asked).logits(), expected), tolerance);
        // A watched value of the last block has all its columns.
        RunOptions watched = asked;
        watched.capture = act::resid_post(-1);
        const RunResult seen = model.run(input, watched);
        EXPECT_EQ(seen.cache[act::resid_post(-1)].size(1), 6);
        EXPECT_LT(relative_difference(seen.logits(), expected), tolerance);
        watched.capture = act::unembed_in;
        EXPECT_LT(relative_difference(model.run(input, watched).logits(), expected), tolerance);
        RunOptions some_tokens = asked;
        some_tokens.logit_tokens = {config.d_vocab_out() - 1, 0, 2, 0};
        const at::Tensor tokens_of = at::tensor(*some_tokens.logit_tokens, at::kLong);
        EXPECT_LT(
            relative_difference(model.run(input, some_tokens).logits(), expected.index_select(2, tokens_of)),
            tolerance);
      }
    }
  }
  EXPECT_GT(tried, 80);
}

TEST(AskedColumns, HaveTheLogitsOfTheWholeRunInEveryConfiguration) {
  expect_the_whole_runs_logits(at::kDouble, 1e-10);
}

TEST(AskedColumns, HaveThemInFloat32) { expect_the_whole_runs_logits(at::kFloat, 1e-4); }

}  // namespace
}  // namespace hooked::asked_columns_test
