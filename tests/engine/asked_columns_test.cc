// Logits at some columns: the last block computes only these, if nobody watches the others.

#include "tests/support/tiny_model.h"

namespace hooked::asked_columns_test {
namespace {

void expect_the_whole_runs_logits(at::ScalarType dtype, double tolerance) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    ModelConfig config = random_config(seed);
    config.dtype = dtype;
    // In float32 a router's near ties may resolve differently.
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

// For each activation: the gradient of the whole run, and its values if logits depend on them.
TEST(AskedColumns, HaveTheGradientsOfTheWholeRunWhereTheRestIsLeftOut) {
  int left_out = 0, whole_there = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    ModelConfig config = random_double_config(seed);
    if (!config.has_unembedding()) continue;
    SCOPED_TRACE(seed);
    const HookedTransformer model = random_model(config);
    const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}, at::kLong).view({2, 6});
    Input input(random_tokens(config, {2, 6}), {.attention_mask = seed % 2 == 0 ? at::Tensor() : mask});
    if (config.has_encoder()) input.decoder = {.tokens = random_tokens(config, {2, 6}, 5)};
    RunOptions options{
        .capture = act::everything,
        .logit_positions = std::vector<std::int64_t>{4, 2},
        .gradients = GradientRequest{.of = act::everything,
                                     .metric = [](const at::Tensor& logits) { return logits.tanh().sum(); }}};
    const RunResult whole = model.run(input, options);
    for (const bool scores : {true, false}) {  // scores, and what follows, are computed at all positions
      const Selection all = act::everything;
      options.capture = options.gradients->of =
          scores ? all : Selection::matching([](const ActivationName& name) {
            return row(name.site).unseen == 0 && !per_expert(row(name.site));
          });
      options.gradients->skip_unread = true;
      const RunResult some = model.run(input, options);
      for (const auto& entry : some.cache) {
        SCOPED_TRACE(entry.name.to_string());
        const at::Tensor value = entry.value(), expected = whole.cache[entry.name];
        ASSERT_EQ(value.sizes(), expected.sizes());
        if (value.is_floating_point()) {
          EXPECT_LT(relative_difference(some.gradients[entry.name], whole.gradients[entry.name]), 1e-10);
        }
        const auto axis = axis_on(entry.name.site, Axis::pos);
        const bool equal = value.isclose(expected, 1e-9, 1e-11).all().item<bool>();
        if (equal || !axis) {
          EXPECT_TRUE(equal);
          ++whole_there;
          continue;
        }
        const std::int64_t dim = *row(entry.name.site).axes.find(*axis);
        const at::Tensor read = at::tensor({2, 4}, at::kLong), unread = at::tensor({0, 1, 3, 5}, at::kLong);
        EXPECT_TRUE(value.index_select(dim, read)
                        .isclose(expected.index_select(dim, read), 1e-9, 1e-11)
                        .all()
                        .item<bool>());
        EXPECT_EQ(value.index_select(dim, unread).abs().max().item<double>(), 0.0);
        EXPECT_FALSE(scores && !config.latent_attention() && config.attends(config.n_layers - 1));
        ++left_out;
      }
    }
  }
  EXPECT_GT(left_out, 400);
  EXPECT_GT(whole_there, 4000);
}

TEST(AskedColumns, AreLeftOutOfGradientsWhereEachIsAskedForOnce) {
  const HookedTransformer model = random_model();
  const RunOptions twice{
      .logit_positions = std::vector<std::int64_t>{4, 2, 4},
      .gradients = GradientRequest{.of = act::resid_pre,
                                   .metric = [](const at::Tensor& logits) { return logits.sum(); },
                                   .skip_unread = true}};
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                model.run(random_tokens(model.config(), {1, 6}), twice);
              }),
              HasSubstr("position 4"));
}

TEST(AskedColumns, HaveThemInFloat32) { expect_the_whole_runs_logits(at::kFloat, 1e-4); }

}  // namespace
}  // namespace hooked::asked_columns_test
