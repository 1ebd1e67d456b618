// Models whose layers are on several devices: what they report, what is refused, what crosses a boundary.
// equals_cpu_test checks that their results equal those on the CPU.
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooked/core/error.h"
#include "hooked/hooked.h"
#include "loading/fill/device.h"
#include "tests/device/checks.h"
#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/device.h"

namespace hooked::device_tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const DeviceNames& devices, const char* model = "gpt2") {
  try {
    HookedTransformer::load(golden_case(model).folder().string(), {.device = devices});
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

HookedTransformer spread(const char* model = "gpt2") {
  return HookedTransformer::load(golden_case(model).folder().string(), {.device = {"strict:0", "strict:1"}});
}

TEST(SpreadModel, SaysWhereItsLayersLie) {
  const auto model = spread();
  EXPECT_TRUE(model.placement().spread());
  EXPECT_EQ(model.device(), strict::device(0));
  EXPECT_THAT(
      model.notes(),
      testing::Contains("the model is spread over devices: layer 0 on strict:0, layer 1 on strict:1"));
  EXPECT_THAT(describe(golden_case("gpt2").folder().string(), {.device = "strict:0,strict:1"}).notes,
              testing::Contains(HasSubstr("layer 1 on strict:1")));
}

TEST(SpreadModel, ActivationsLieWithTheirLayers) {
  const auto model = spread();
  const GoldenRun golden = read_golden(golden_case("gpt2"));
  const auto run = model.run_with_cache({golden.tokens}, act::everything);
  EXPECT_EQ(run.cache[act::resid_post(0)].device(), strict::device(0));
  EXPECT_EQ(run.cache[act::resid_pre(1)].device(), strict::device(1));
  EXPECT_EQ(run.cache[act::pattern(1)].device(), strict::device(1));
  EXPECT_EQ(run.logits().device(), model.placement().exit());
  EXPECT_EQ(model.weights().W_Q(1).device(), strict::device(1));
  EXPECT_EQ(model.weights().W_Q().device(), strict::device(0)) << "of all layers: with the first";
  EXPECT_EQ(run.cache.stack(act::resid_pre).device(), strict::device(0));
  EXPECT_THAT(model.run({golden.tokens}).notes, ElementsAre(HasSubstr("spread over several devices")));
}

TEST(SpreadModel, IsRefusedInOneSentence) {
  EXPECT_THAT(refusal("strict:0,strict:0"), HasSubstr("[device] 'strict:0' is named twice; expected"));
  EXPECT_THAT(refusal("strict,strict:0"), HasSubstr("named twice"));
  EXPECT_THAT(refusal("strict:0,toaster"), HasSubstr("'toaster' is not a device"));
  EXPECT_THAT(refusal("strict:0,strict:7"), HasSubstr("there is no such GPU"));
  EXPECT_THAT(refusal("strict:0,cpu"), HasSubstr("'strict:0' and 'cpu' are of two kinds"));
  EXPECT_THAT(refusal("strict:all"), HasSubstr("too few layers for 3 devices; expected at most 2"));
  EXPECT_THAT(refusal(std::vector<std::string>{}), HasSubstr("no device is named"));
}

TEST(SpreadModel, OpensAllOfAKind) {
  EXPECT_THAT(open_devices("strict:all"),
              ElementsAre(strict::device(0), strict::device(1), strict::device(2)));
  EXPECT_THAT(open_devices("cpu:all"), ElementsAre(c10::Device(at::kCPU)));
  EXPECT_THAT(open_devices({"strict:2", "strict:0"}), ElementsAre(strict::device(2), strict::device(0)));
}

TEST(SpreadModel, WaitsNowhereAndCrossesOnce) {
  const GoldenRun golden = read_golden(golden_case("gpt2"));
  const auto one = HookedTransformer::load(golden_case("gpt2").folder().string(), {.device = "strict"});
  const auto two = spread();
  const RunOptions options{.eager = true};
  const strict::Counts alone = strict::counts_of([&] { one.run({golden.tokens}, options); });
  const strict::Trace trace(strict::Trace::Of::waits_and_launches);
  const strict::Counts both = strict::counts_of([&] { two.run({golden.tokens}, options); });
  EXPECT_EQ(both.waits, 0) << trace.text();
  // The stream, where the mask begins and ends; and the stream back to a tied unembedding.
  EXPECT_LE(both.launches - alone.launches, 4) << trace.text();
}

TEST(SpreadModel, EditsValuesMayLieOnAnyOfItsDevices) {
  const GoldenRun golden = read_golden(golden_case("gpt2"));
  const auto model = spread();
  const at::Tensor value = at::full({model.config().d_model}, 0.5, at::kFloat);
  const auto steered = [&](const at::Tensor& by) {
    return model.run({golden.tokens}, {.edits = {add(act::resid_post, by)}}).logits().cpu();
  };
  const at::Tensor expected = steered(value.to(strict::device(0)));
  EXPECT_TRUE(steered(value.to(strict::device(1))).equal(expected));
  EXPECT_THROW(steered(value), HookError) << "a value of the host, as on one device";
}

}  // namespace
}  // namespace hooked::device_tests
