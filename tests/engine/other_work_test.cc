// Next to other work fewer threads share a run; the bits are the same.
#include "tests/support/other_work.h"

#include "core/parallel.h"
#include "tests/support/tiny_model.h"

namespace hooked::other_work_test {
namespace {

/// Large enough that its work is shared.
ModelConfig wide(at::ScalarType dtype) {
  ModelConfig config = tiny_config({.n_layers = 2,
                                    .d_model = 192,
                                    .n_ctx = 80,
                                    .n_heads = 6,
                                    .d_head = 32,
                                    .d_mlp = 777,
                                    .d_vocab = 1003});
  config.activation = Activation::gelu_tanh;
  config.dtype = dtype;
  return config;
}

void expect_equal(const ActivationCache& got, const ActivationCache& expected) {
  ASSERT_EQ(got.names(), expected.names());
  for (const auto& entry : got) {
    EXPECT_TRUE(at::equal(entry.value(), expected[Address(entry.name)])) << entry.name.to_string();
  }
}

class OtherWork : public testing::TestWithParam<at::ScalarType> {
 protected:
  const ThreadLimit threads_{2};
  const HookedTransformer model_ = HookedTransformer::create(wide(GetParam()), {.seed = 1});
};

TEST_P(OtherWork, ChangesNoBitOfARun) {
  const at::Tensor tokens = random_tokens(model_.config(), {3, 77}, 1);
  const LogitMetric metric = [](const at::Tensor& logits) { return logits.select(-1, 3).square().sum(); };
  const auto run = [&](const Selection& capture, bool gradients) {
    RunOptions options{.capture = capture};
    if (gradients) options.gradients = GradientRequest{act::resid_pre | act::z, metric};
    return model_.run(tokens, options);
  };
  for (const bool gradients : {false, true}) {
    const auto expected = run(act::everything, gradients);
    const at::Tensor logits = run({}, gradients).logits();  // without what is kept, which takes other ways
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(see_other_work());
      const auto got = run(act::everything, gradients);
      expect_equal(got.cache, expected.cache);
      expect_equal(got.gradients, expected.gradients);
      ASSERT_TRUE(see_other_work());
      EXPECT_TRUE(at::equal(run({}, gradients).logits(), logits));
    }
  }
}

TEST_P(OtherWork, ChangesNoTokenOfAGeneration) {
  const at::Tensor tokens = random_tokens(model_.config(), {2, 40}, 2);
  const auto generated = [&] { return model_.generate(tokens, {.max_new_tokens = 20}).tokens; };
  const at::Tensor expected = generated();
  ASSERT_TRUE(see_other_work());
  EXPECT_TRUE(at::equal(generated(), expected));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, OtherWork, testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                         [](const auto& tested) { return std::string(at::toString(tested.param)); });

}  // namespace
}  // namespace hooked::other_work_test
