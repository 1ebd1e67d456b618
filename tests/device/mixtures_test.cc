// Mixtures of experts on a device: the host does not learn how many tokens each expert gets, and results
// equal those on the CPU, where it does.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/loading/describe.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/support/strict_device/counts.h"

namespace hooked::device_tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kFloat64 = 1e-9, kBfloat16 = 6e-2;

class Mixtures : public testing::TestWithParam<const char*> {
 protected:
  struct Pair {
    HookedTransformer cpu, device;
  };
  static Pair load(const std::string& name, at::ScalarType dtype) {
    const std::string folder = golden_case(name).folder().string();
    return {HookedTransformer::load(folder, {.dtype = dtype}),
            HookedTransformer::load(folder, {.device = device_under_test(), .dtype = dtype})};
  }
  static Selection streams() {
    return act::resid_post | act::mlp_out | act::expert_weights | act::expert_indices;
  }

  const GoldenRun golden_ = read_golden(golden_case(GetParam()));
};

// Rows of other tokens, enough for experts to compute in blocks.
at::Tensor many_rows(const at::Tensor& tokens, const ModelConfig& config) {
  const at::Tensor row = tokens.narrow(0, 0, 1).repeat({1, config.n_ctx / tokens.size(1) + 1});
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < 4000 / config.n_ctx; ++i) {
    rows.push_back((row.narrow(1, 0, config.n_ctx) * (i + 1) + i) % config.d_vocab);
  }
  return at::cat(rows);
}

TEST_P(Mixtures, OfManyTokensComputeInBlocksAsOnTheCpu) {
  const Pair models = load(GetParam(), at::kDouble);
  at::Tensor tokens = many_rows(golden_.tokens, models.cpu.config());
  at::Tensor mask = at::ones_like(tokens);
  mask[1].narrow(0, 0, 5).zero_();
  const RunOptions options{
      .capture = streams(), .logit_positions = std::vector<std::int64_t>{-1}, .eager = true};
  for (const Input& input : {Input(tokens), Input(tokens, {.attention_mask = mask})}) {
    const strict::Trace trace(strict::Trace::Of::waits_and_launches);
    const RunResult on_device = models.device.run(input, options);
    // If half of the experts or more serve a token, each may as well compute all tokens.
    const Experts& experts = *models.cpu.config().experts;
    if (on_strict_device() && 2 * experts.per_token <= experts.n_experts) {
      EXPECT_THAT(trace.text(), HasSubstr("sort"));
    }
    EXPECT_TRUE(agree(all_of(on_device), all_of(models.cpu.run(input, options)), {.tolerance = kFloat64}));
  }
}

TEST_P(Mixtures, OfOneTokenComputeAsOnTheCpu) {
  const Pair models = load(GetParam(), at::kDouble);
  const Input input(golden_.tokens.narrow(0, 0, 1).narrow(1, 0, 1));
  const RunOptions options{.capture = streams(), .eager = true};
  EXPECT_TRUE(agree(all_of(models.device.run(input, options)), all_of(models.cpu.run(input, options)),
                    {.tolerance = kFloat64}));
}

TEST_P(Mixtures, ShowSingleExpertsAfterAWaitAndSaySo) {
  const Pair models = load(GetParam(), at::kDouble);
  const Subject s{models.device, golden_};
  const Selection selection = act::expert_post | act::mlp_out;
  const RunResult shown = models.device.run(s.input(), {.capture = selection});
  EXPECT_THAT(shown.notes, ElementsAre(HasSubstr("single experts")));
  EXPECT_TRUE(agree(all_of(shown), all_of(models.cpu.run(s.input(), {.capture = selection})),
                    {.tolerance = kFloat64}));
  EXPECT_THAT(models.device.run(s.input(), {.capture = act::mlp_out}).notes, ElementsAre());
}

TEST_P(Mixtures, CheckExpertsThatEditsChoose) {
  const Pair models = load(GetParam(), at::kDouble);
  const Subject s{models.device, golden_};
  const auto edited = [&](const HookedTransformer& model, double expert) {
    const auto last = s.config().n_layers - 1;
    return model.run(s.input(),
                     {.edits = {set(act::expert_indices(last).pos(1), expert)}, .capture = act::mlp_out});
  };
  EXPECT_TRUE(
      agree(all_of(edited(models.device, 1)), all_of(edited(models.cpu, 1)), {.tolerance = kFloat64}));
  EXPECT_THROW(edited(models.device, 99), HookError);
  EXPECT_THAT(edited(models.device, 0).notes, ElementsAre(HasSubstr("edits of ids")));
}

TEST_P(Mixtures, PassGradientsBackWithoutAWait) {
  if (!on_strict_device()) GTEST_SKIP() << "waits are counted on the strict device only";
  const Pair models = load(GetParam(), at::kFloat);
  const Subject s{models.device, golden_};
  const LogitMetric metric([](const at::Tensor& logits) { return logits.square().mean(); });
  const strict::Trace trace;
  const auto counts = strict::counts_of([&] {
    models.device.run(s.input(), {.gradients = GradientRequest{act::resid_pre, metric}});
  });
  EXPECT_EQ(counts.waits, 0) << trace.text();
}

INSTANTIATE_TEST_SUITE_P(Models, Mixtures,
                         testing::Values("mixtral", "mixtral_all", "phimoe", "qwen2_moe", "qwen3_moe",
                                         "deepseek_v2", "deepseek_v3", "gpt_oss", "gpt_oss_limits", "olmoe",
                                         "granitemoe", "ernie4_5_moe", "tl_mixture", "llama4_text",
                                         "llama4_text_dense"));

// With rows aligned as grouped products need them.
class AlignedMixtures : public Mixtures {};

TEST_P(AlignedMixtures, ComputeInGroupsInBfloat16) {
  const Pair models = load(GetParam(), at::kBFloat16);
  const Subject s{models.device, golden_};
  const strict::Trace trace(strict::Trace::Of::waits_and_launches);
  RunResult on_device;
  const auto counts = strict::counts_of(
      [&] { on_device = models.device.run(s.input(), {.capture = act::mlp_out, .eager = true}); });
  if (on_strict_device()) {
    EXPECT_EQ(counts.waits, 0) << trace.text();
    EXPECT_THAT(trace.text(), HasSubstr("_grouped_mm"));
  }
  EXPECT_TRUE(agree(all_of(on_device), all_of(models.cpu.run(s.input(), {.capture = act::mlp_out})),
                    {.tolerance = kBfloat16}));
}

TEST_P(AlignedMixtures, ComputeInBlocksInOtherDtypes) {
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  const Pair models = load(GetParam(), at::kFloat);
  const strict::Trace trace(strict::Trace::Of::waits_and_launches);
  models.device.run(Subject{models.device, golden_}.input(), {.eager = true});
  EXPECT_THAT(trace.text(), Not(HasSubstr("_grouped_mm")));
}

// Cards of one machine may be of several kinds: each layer computes as its own card does.
TEST_P(AlignedMixtures, AskEachCardThatTheyAreSpreadOver) {
  if (!on_strict_device()) GTEST_SKIP() << "only the strict device has such cards";
  const std::string folder = golden_case(GetParam()).folder().string();
  for (const char* cards : {"strict:0,strict:2", "strict:2,strict:0", "strict:2"}) {
    if (read_model_config(folder).n_layers < 2 && std::string(cards).find(',') != std::string::npos) continue;
    const auto model = HookedTransformer::load(folder, {.device = cards, .dtype = at::kBFloat16});
    const bool some_do = std::string(cards) != "strict:2";
    const strict::Trace trace(strict::Trace::Of::waits_and_launches);
    const auto counts = strict::counts_of([&] {
      model.run(Subject{model, golden_}.input(), {.capture = act::mlp_out, .eager = true});
    });
    EXPECT_EQ(counts.waits, 0) << cards << '\n' << trace.text();
    EXPECT_EQ(trace.text().find("_grouped_mm") != std::string::npos, some_do) << cards;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AlignedMixtures, testing::Values("qwen2_moe_all", "gpt_oss_mxfp4"));

}  // namespace
}  // namespace hooked::device_tests
