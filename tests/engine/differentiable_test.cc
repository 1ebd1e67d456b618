// Runs that stay in autograd's graph of what the caller put in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooked/engine/hooked_transformer.h"
#include "tests/support/activations.h"
#include "tests/support/relative_difference.h"
#include "tests/support/thrown_by.h"
#include "tests/support/tiny_model.h"

namespace hooked::differentiable_test {
namespace {

using testing::HasSubstr;

/// A function of all logits with a weight of its own for each.
at::Tensor score(const at::Tensor& logits) {
  const at::Tensor weights =
      at::rand(logits.sizes(), at::detail::createCPUGenerator(3), at::TensorOptions(at::kDouble)) - 0.5;
  return (logits.tanh() * weights).sum();
}

class Differentiable : public testing::TestWithParam<int> {
 protected:
  Differentiable() : model_(random_model(config_)), tokens_(random_tokens(config_, {2, 5})) {}

  at::Tensor leaf() const {
    return at::randn({config_.d_model}, at::detail::createCPUGenerator(7), at::TensorOptions(at::kDouble))
        .mul(0.1)
        .requires_grad_(true);
  }

  /// The gradient that the run itself takes, of what is added to a point in all rows and columns.
  at::Tensor expected(const ActivationName& point, const at::Tensor& vector) const {
    const auto run = model_.run(tokens_, {.edits = add(Address(point), vector.detach()),
                                          .gradients = GradientRequest{.of = point, .metric = score}});
    return run.gradients[Address(point)].sum(at::IntArrayRef{0, 1});
  }

  ModelConfig config_ = random_double_config(static_cast<std::uint64_t>(GetParam()));
  HookedTransformer model_;
  at::Tensor tokens_;
};

TEST_P(Differentiable, HooksAndEditsLearn) {
  for (const ActivationName& point : {act::resid_pre(0).name(), act::resid_post(-1).name()}) {
    const at::Tensor by_edit = leaf(), by_hook = leaf();
    score(model_.run(tokens_, {.edits = add(Address(point), by_edit), .differentiable = true}).logits())
        .backward();
    score(model_
              .run(tokens_, {.hooks = {point, [&](const at::Tensor& value) { return value + by_hook; }},
                             .differentiable = true})
              .logits())
        .backward();
    const at::Tensor wanted = expected(point, by_edit);
    EXPECT_LT(relative_difference(by_edit.grad(), wanted), 1e-12) << point.to_string();
    EXPECT_LT(relative_difference(by_hook.grad(), wanted), 1e-12) << point.to_string();
  }
}

TEST_P(Differentiable, PassesTwiceAndOutlivesTheModel) {
  const at::Tensor vector = leaf();
  at::Tensor value;
  {
    const HookedTransformer model = random_model(config_);
    value =
        score(model.run(tokens_, {.edits = add(act::resid_pre(0), vector), .differentiable = true}).logits());
  }
  value.backward({}, /*retain_graph=*/true);
  const at::Tensor once = vector.grad().clone();
  value.backward();
  EXPECT_TRUE(at::equal(vector.grad(), once * 2));
}

TEST_P(Differentiable, CapturedActivationsAreAttached) {
  const at::Tensor vector = leaf();
  const auto run = model_.run(tokens_, {.edits = add(act::resid_pre(0), vector),
                                        .capture = {act::resid_post(-1)},
                                        .output = Output::none,
                                        .differentiable = true});
  run.cache[act::resid_post(-1)].pow(2).sum().backward();
  const auto own =
      model_.run(tokens_, {.edits = add(act::resid_pre(0), vector.detach()),
                           .output = Output::none,
                           .gradients = GradientRequest{
                               .of = act::resid_pre(0),
                               .of_run = {.reads = act::resid_post(-1),
                                          .function = [](const at::Tensor&, const ActivationCache& read) {
                                            return read[act::resid_post(-1)].pow(2).sum();
                                          }}}});
  EXPECT_LT(relative_difference(vector.grad(), own.gradients[act::resid_pre(0)].sum(at::IntArrayRef{0, 1})),
            1e-12);
}

TEST_P(Differentiable, AStartResidualLearns) {
  if (config_.has_encoder() || config_.layer_input) GTEST_SKIP() << "starts from tokens, too";
  const at::Tensor stream =
      at::randn({2, 5, config_.d_model}, at::detail::createCPUGenerator(8), at::TensorOptions(at::kDouble))
          .requires_grad_(true);
  const Input input = Input::start_at_layer(0, stream);
  score(model_.run(input, {.differentiable = true}).logits()).backward();
  const auto own = model_.run(Input::start_at_layer(0, stream.detach()),
                              {.gradients = GradientRequest{.of = act::resid_pre(0), .metric = score}});
  EXPECT_LT(relative_difference(stream.grad(), own.gradients[act::resid_pre(0)]), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Models, Differentiable, testing::Range(0, 12));

TEST(DifferentiableRun, IsAskedForAndStandsAlone) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = at::tensor({1, 2, 3}, at::kLong);
  const at::Tensor vector = at::ones({model.config().d_model}, model.dtype()).requires_grad_(true);
  const auto plain =
      model.run(tokens, {.edits = add(act::resid_pre(0), vector), .capture = {act::resid_post}});
  EXPECT_FALSE(plain.logits().requires_grad());
  EXPECT_FALSE(plain.cache[act::resid_post(0)].requires_grad());
  const auto attached = model.run(
      tokens,
      {.edits = add(act::resid_pre(0), vector), .capture = {act::resid_post}, .differentiable = true});
  EXPECT_TRUE(attached.logits().requires_grad());
  EXPECT_TRUE(at::allclose(plain.logits(), attached.logits(), 1e-5, 1e-6));
  EXPECT_FALSE(model.run(tokens, {.differentiable = true}).logits().requires_grad());
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                model.run(tokens, {.gradients = GradientRequest{.of = act::resid_pre, .metric = score},
                                   .differentiable = true});
              }),
              HasSubstr("one of gradients and differentiable"));
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { model.run(tokens, {.differentiable = true, .keep_prefix = true}); }),
      HasSubstr("differentiable with keep_prefix"));
}

}  // namespace
}  // namespace hooked::differentiable_test
