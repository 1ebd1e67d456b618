#include "hooked/engine/loss.h"

#include "tests/support/tiny_model.h"

namespace hooked::loss_test {
namespace {

class Loss : public testing::Test {
 protected:
  /// -log p of the next token, by hand.
  double by_hand(const at::Tensor& logits, std::int64_t row, std::int64_t pos) const {
    double sum = 0.0;
    for (std::int64_t id = 0; id < logits.size(2); ++id) sum += std::exp(logits[row][pos][id].item<double>());
    return std::log(sum) - logits[row][pos][tokens_[row][pos + 1].item<std::int64_t>()].item<double>();
  }

  HookedTransformer model_ = random_model();
  at::Tensor tokens_ = random_tokens(model_.config(), {2, 6});
};

TEST_F(Loss, PerTokenAndMean) {
  const at::Tensor logits = model_(tokens_);
  const at::Tensor per_token =
      model_.run(tokens_, {.output = Output::loss, .loss = {.reduction = LossReduction::per_token}}).loss();
  ASSERT_EQ(per_token.sizes(), (at::IntArrayRef{2, 5}));
  double sum = 0.0;
  for (int row = 0; row < 2; ++row) {
    for (int pos = 0; pos < 5; ++pos) {
      EXPECT_NEAR(per_token[row][pos].item<double>(), by_hand(logits, row, pos), 1e-12);
      sum += by_hand(logits, row, pos);
    }
  }
  EXPECT_NEAR(model_.run(tokens_, {.output = Output::loss}).loss().item<double>(), sum / 10, 1e-12);
}

TEST_F(Loss, CountsPredictionsBetweenRealTokens) {
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[0].narrow(0, 0, 2).zero_();
  mask[1].narrow(0, 4, 2).zero_();
  const at::Tensor logits = model_.run({tokens_, {.attention_mask = mask}}).logits();
  const at::Tensor per_token =
      model_
          .run({tokens_, {.attention_mask = mask}},
               {.output = Output::loss, .loss = {.reduction = LossReduction::per_token}})
          .loss();
  double sum = 0.0;
  int count = 0;
  for (int row = 0; row < 2; ++row) {
    for (int pos = 0; pos < 5; ++pos) {
      const bool counted = mask[row][pos].item<int>() == 1 && mask[row][pos + 1].item<int>() == 1;
      EXPECT_NEAR(per_token[row][pos].item<double>(), counted ? by_hand(logits, row, pos) : 0.0, 1e-12)
          << row << pos;
      if (counted) sum += by_hand(logits, row, pos);
      count += counted;
    }
  }
  EXPECT_EQ(count, 6);
  EXPECT_NEAR(model_.run({tokens_, {.attention_mask = mask}}, {.output = Output::loss}).loss().item<double>(),
              sum / count, 1e-12);
}

TEST_F(Loss, OfARunFromAResidual) {
  const at::Tensor resid = model_.run(tokens_, {.stop_at_layer = 1}).residual();
  const auto run =
      model_.run(Input::start_at_layer(1, resid), {.output = Output::loss, .loss = {.targets = tokens_}});
  EXPECT_NEAR(run.loss().item<double>(), model_.run(tokens_, {.output = Output::loss}).loss().item<double>(),
              1e-12);
}

TEST_F(Loss, OfOtherTargets) {
  const at::Tensor targets = random_tokens(model_.config(), {2, 6}, 55);
  const at::Tensor logits = model_(tokens_);
  const at::Tensor got = model_.run(tokens_, {.output = Output::loss, .loss = {.targets = targets}}).loss();
  EXPECT_NEAR(got.item<double>(), next_token_loss(logits, targets, {}, LossReduction::mean).item<double>(),
              1e-12);
}

TEST_F(Loss, OfHalfPrecisionLogitsIsFloat32) {
  ModelConfig config = small_config();
  config.dtype = at::kBFloat16;
  const HookedTransformer model = random_model(config);
  const at::Tensor loss = model.run(tokens_, {.output = Output::loss}).loss();
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(
      loss.item<double>(),
      next_token_loss(model(tokens_).to(at::kDouble), tokens_, {}, LossReduction::mean).item<double>(), 1e-5);
}

// However LibTorch's products of that dtype would round them.
TEST_F(Loss, LogitsOfHalfPrecisionAreFloat32) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    ModelConfig config = small_config();
    config.dtype = dtype;
    config.unembedding->bias = true;
    const HookedTransformer model = random_model(config);
    const auto run = model.run_with_cache(tokens_, act::unembed_in | act::unembed_out);
    EXPECT_EQ(run.logits().scalar_type(), at::kFloat);
    EXPECT_EQ(run.cache[act::unembed_out].scalar_type(), at::kFloat);
    EXPECT_EQ(run.cache[act::unembed_in].scalar_type(), dtype);
    const at::Tensor exact =
        run.cache[act::unembed_in].to(at::kDouble).matmul(model.weights()["unembed.W_U"].to(at::kDouble)) +
        model.weights()["unembed.b_U"].to(at::kDouble);
    EXPECT_LT((run.logits() - exact).abs().max().item<double>(), 1e-5);
    const at::Tensor last = model.run(tokens_, {.logit_positions = {{-1}}}).logits();
    EXPECT_LT((last - run.logits().narrow(1, 5, 1)).abs().max().item<double>(), 1e-5);
  }
}

// Rows of one real token predict nothing, so they have no mean.
TEST_F(Loss, WithoutAnyPredictionIsRefused) {
  at::Tensor mask = at::zeros({2, 6}, at::kLong);
  mask.select(1, 3).fill_(1);
  EXPECT_THROW(model_.run({tokens_, {.attention_mask = mask}}, {.output = Output::loss}), ShapeError);
}

// With a large vocabulary a loss holds the logits of some columns at a time: 128 of these.
// For a model that predicts fewer tokens than it reads.
TEST(TokenLogProbs, OfATokenThatNobodyPredictsAreRefused) {
  const std::string text = text_thrown_by<ShapeError>([] {
    token_log_probs(at::zeros({1, 2, 5}), at::full({1, 2}, 7, at::kLong));
  });
  EXPECT_NE(text.find("token id 7 is not among the tokens that the model predicts; expected 0 to 4"),
            std::string::npos)
      << text;
}

TEST_F(Loss, InPartsIsTheLossOfAllLogits) {
  ModelConfig config = small_config();
  config.n_ctx = 300;
  config.d_vocab = 1 << 16;
  config.unembedding = Unembedding{.d_vocab = config.d_vocab};
  config.dtype = at::kFloat;
  const auto model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {1, 300});
  at::Tensor mask = at::ones({1, 300}, at::kLong);
  mask[0].narrow(0, 290, 10).zero_();
  for (const LossReduction reduction : {LossReduction::mean, LossReduction::per_token}) {
    const RunOptions options{.output = Output::loss, .loss = {.reduction = reduction}};
    const at::Tensor whole = next_token_loss(model(tokens), tokens, {}, reduction);
    EXPECT_LT(relative_difference(model.run(tokens, options).loss(), whole), 1e-5);
    const Input padded{tokens, {.attention_mask = mask}};
    const at::Tensor some =
        next_token_loss(model.run(padded).logits(), tokens, mask.to(at::kBool), reduction);
    EXPECT_LT(relative_difference(model.run(padded, options).loss(), some), 1e-5);
  }
}

}  // namespace
}  // namespace hooked::loss_test
