#include "hooked/engine/trainable_transformer.h"

#include <ATen/ops/sqrt.h>
#include <c10/core/GradMode.h>

#include "tests/support/tiny_model.h"

namespace hooked::trainable_transformer_test {
namespace {

/// AdamW (Loshchilov and Hutter 2019), written out so that the engine needs no optimizer library.
class AdamW {
 public:
  explicit AdamW(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const at::Tensor& p : parameters_) {
      mean_.push_back(at::zeros_like(p));
      square_.push_back(at::zeros_like(p));
    }
  }

  void step(double rate) {
    const at::NoGradGuard no_grad;
    ++steps_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor g = parameters_[i].grad();
      if (!g.defined()) continue;
      mean_[i].mul_(0.9).add_(g, 0.1);
      square_[i].mul_(0.99).add_(g * g, 0.01);
      const at::Tensor mean = mean_[i] / (1.0 - std::pow(0.9, steps_)),
                       square = square_[i] / (1.0 - std::pow(0.99, steps_));
      parameters_[i].mul_(1.0 - rate * 0.01).sub_(rate * mean / (at::sqrt(square) + 1e-8));
      parameters_[i].mutable_grad().zero_();
    }
  }

 private:
  std::vector<at::Tensor> parameters_, mean_, square_;
  int steps_ = 0;
};

TEST(TrainableTransformer, LossFallsOnASmallBatch) {
  ModelConfig config = small_config();
  config.dtype = at::kFloat;
  const auto model = TrainableTransformer::create(config, {.seed = 1});
  const at::Tensor tokens = random_tokens(config, {4, 8});
  AdamW optimizer(model.parameters());
  const double before = model.loss(tokens).item<double>();
  EXPECT_NEAR(before, std::log(11.0), 1.0);
  for (int step = 0; step < 20; ++step) {
    model.loss(tokens).backward();
    optimizer.step(0.02);
  }
  EXPECT_LT(model.loss(tokens).item<double>(), 0.6 * before);
}

TEST(TrainableTransformer, TrainsEveryKindOfModel) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_config(seed);
    config.unembedding->d_vocab = config.d_vocab;
    config.dtype = at::kDouble;
    const auto model = TrainableTransformer::create(config, {.seed = seed});
    const at::Tensor tokens = random_tokens(config, {2, 6});
    AdamW optimizer(model.parameters());
    // Models that read both ways learn to tell each token from its position.
    const auto loss = [&] {
      if (config.direction == AttentionDirection::causal) return model.loss(tokens);
      return -at::log_softmax(model.forward(tokens), -1).gather(-1, tokens.unsqueeze(-1)).mean();
    };
    const double before = loss().item<double>();
    for (int step = 0; step < 5; ++step) {
      loss().backward();
      optimizer.step(0.003);
    }
    EXPECT_LT(loss().item<double>(), before);
  }
}

TEST(TrainableTransformer, ParametersAreNamedLeavesThatTheLossReaches) {
  const auto model = TrainableTransformer::from(random_model());
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  model.loss(tokens).backward();
  std::set<std::string> names;
  std::int64_t count = 0;
  for (const auto& [name, parameter] : model.named_parameters()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad()) << name;
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_GT(parameter.grad().abs().max().item<double>(), 0.0) << name;
    count += parameter.numel();
  }
  EXPECT_EQ(count, model.config().parameter_count());
  EXPECT_EQ(model.parameters().size(), names.size());
  EXPECT_TRUE(names.contains("blocks.0.attn.W_QKV"));
}

TEST(TrainableTransformer, GradientsEqualFiniteDifferences) {
  const auto model = TrainableTransformer::from(random_model());
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  model.loss(tokens).backward();
  for (const auto& [name, parameter] : model.named_parameters()) {
    const std::int64_t place = parameter.numel() / 2;
    const auto at_place = [&](const at::Tensor& x) {  // a matrix may be stored by columns
      return x.dim() == 1 ? x[place] : x[place / x.size(1)][place % x.size(1)];
    };
    const double got = at_place(parameter.grad()).item<double>();
    const auto moved = [&](double by) {
      const at::NoGradGuard no_grad;
      const at::Tensor element = at_place(parameter);
      element.add_(by);
      const double loss = model.loss(tokens).item<double>();
      element.sub_(by);
      return loss;
    };
    EXPECT_NEAR(got, (moved(1e-5) - moved(-1e-5)) / 2e-5, 1e-7) << name;
  }
}

TEST(TrainableTransformer, FreezeIsACopyThatEqualsForward) {
  for_random_configs(40, [&](const ModelConfig& config) {
    const auto model = TrainableTransformer::from(random_model(config));
    const at::Tensor tokens = random_tokens(config, {2, 6});
    const HookedTransformer frozen = model.freeze();
    const at::Tensor logits = frozen(tokens);
    EXPECT_LT(relative_difference(logits, model.forward(tokens).detach()), kDoubleTolerance);
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor parameter : model.parameters()) parameter.add_(0.1);
    }
    EXPECT_TRUE(at::equal(frozen(tokens), logits)) << "training changed a frozen model";
    EXPECT_FALSE(frozen.weights().W_E().requires_grad());
  });
}

TEST(TrainableTransformer, FromLeavesTheModelAlone) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 6}), before = model(tokens);
  const auto trainable = TrainableTransformer::from(model);
  EXPECT_LT(relative_difference(trainable.forward(tokens).detach(), before), kDoubleTolerance);
  trainable.loss(tokens).backward();
  AdamW(trainable.parameters()).step(0.1);
  EXPECT_TRUE(at::equal(model(tokens), before));
  EXPECT_FALSE(at::equal(trainable.freeze()(tokens), before));
}

TEST(TrainableTransformer, LossEqualsTheFrozenRunsWithAndWithoutAMask) {
  const auto model = TrainableTransformer::from(random_model());
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[0].narrow(0, 0, 2).zero_();
  const HookedTransformer frozen = model.freeze();
  for (const at::Tensor& attention_mask : {at::Tensor(), mask}) {
    EXPECT_NEAR(model.loss({tokens, {.attention_mask = attention_mask}}).item<double>(),
                frozen.run({tokens, {.attention_mask = attention_mask}}, {.output = Output::loss})
                    .loss()
                    .item<double>(),
                1e-12);
    EXPECT_LT(relative_difference(model.forward({tokens, {.attention_mask = attention_mask}}).detach(),
                                  frozen.run({tokens, {.attention_mask = attention_mask}}).logits()),
              kDoubleTolerance);
  }
}

TEST(TrainableTransformer, ChecksItsInput) {
  const auto model = TrainableTransformer::create(small_config());
  EXPECT_THROW(model.forward(random_tokens(small_config(), {1, 11})), ShapeError);
  EXPECT_THROW(model.forward(random_tokens(small_config(), {1, 5}) - 20), ShapeError);
  EXPECT_THROW(
      model.loss({random_tokens(small_config(), {2, 6}), {.attention_mask = at::ones({2, 5}, at::kLong)}}),
      ShapeError);
}

TEST(TrainableTransformer, SameSeedGivesTheModelThatCreateGives) {
  const at::Tensor tokens = random_tokens(small_config(), {2, 6});
  EXPECT_TRUE(at::equal(TrainableTransformer::create(small_config(), {.seed = 4}).freeze()(tokens),
                        HookedTransformer::create(small_config(), {.seed = 4})(tokens)));
}

}  // namespace
}  // namespace hooked::trainable_transformer_test
