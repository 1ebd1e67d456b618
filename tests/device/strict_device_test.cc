// The strict device itself: that it finds each of the faults it is meant to find.
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/unique_dim.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "loading/fill/device.h"
#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/device.h"
#include "tests/support/strict_device/limits.h"
#include "tests/support/thrown_by.h"

namespace hooked::strict_device_test {
namespace {

using strict::counts_of;
using testing::HasSubstr;

at::Tensor on(int device, at::IntArrayRef sizes = {2, 3}) {
  return at::ones(sizes, at::TensorOptions(at::kFloat).device(strict::device(device)));
}

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(StrictDevice, ComputesAsTheCpu) {
  const at::Tensor x = on(0) * 2.0 + at::arange(3, on(0).options());
  EXPECT_TRUE(x.cpu().equal(at::ones({2, 3}) * 2.0 + at::arange(3)));
  EXPECT_TRUE(at::mm(x, x.t()).cpu().equal(at::mm(x.cpu(), x.cpu().t())));
}

TEST(StrictDevice, WritesIntoWhatIsThere) {
  const at::Tensor x = on(0, {4, 4});
  x.narrow(0, 1, 2).mul_(3.0);
  x.select(1, 0).add_(x.select(1, 1));
  at::Tensor expected = at::ones({4, 4});
  expected.narrow(0, 1, 2).mul_(3.0);
  expected.select(1, 0).add_(expected.select(1, 1));
  EXPECT_TRUE(x.cpu().equal(expected));
}

TEST(StrictDevice, MixedDevicesAreErrorsThatNameTheOperator) {
  EXPECT_THAT(refusal([] {
                on(0) + at::ones({2, 3});
              }),
              HasSubstr("strict:0 and cpu"));  // LibTorch's own words
  EXPECT_THAT(refusal([] { on(0) + on(1); }), HasSubstr("strict:1"));
  EXPECT_THAT(refusal([] { at::mm(on(0), at::ones({3, 2})); }), HasSubstr("mm"));
  EXPECT_THAT(refusal([] { at::cat({on(0), at::ones({2, 3})}); }), HasSubstr("cat"));
  EXPECT_THAT(refusal([] { on(0).index_select(0, at::arange(1)); }), HasSubstr("index_select"));
  EXPECT_THAT(refusal([] { at::ones({2, 3}).add_(on(0)); }), HasSubstr("strict"));
}

TEST(StrictDevice, NumbersOfTheHostAreTakenElementByElement) {
  EXPECT_EQ((on(0) * at::scalar_tensor(3.0)).cpu().sum().item<double>(), 18.0);
  // A matrix product takes none on CUDA.
  EXPECT_NE(refusal([] { on(0).index_select(0, at::scalar_tensor(0, at::kLong)); }), "");
}

TEST(StrictDevice, FreshMemoryIsNaN) {
  const at::Tensor fresh = at::empty({5}, on(0).options());
  EXPECT_TRUE(fresh.isnan().all().item<bool>());
}

using StrictDeviceDeathTest = testing::Test;

TEST(StrictDeviceDeathTest, TheHostMayNotReadItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const at::Tensor x = on(0);
  EXPECT_EXIT(static_cast<void>(*static_cast<const volatile float*>(x.const_data_ptr())),
              testing::ExitedWithCode(139), "strict device: the host touched memory of the device");
}

TEST(StrictDevice, MemoryOfTheHostIsNotTheDevices) {
  const at::Tensor host = at::ones({2, 3});
  c10::Storage disguised(c10::Storage::use_byte_size_t(), host.nbytes(),
                         c10::DataPtr(host.mutable_data_ptr(), strict::device()), nullptr, false);
  const at::Tensor x = at::empty({0}, on(0).options());
  x.unsafeGetTensorImpl()->set_storage_keep_dtype(disguised);
  x.unsafeGetTensorImpl()->set_sizes_contiguous({2, 3});
  EXPECT_THAT(refusal([&] { x + x; }), HasSubstr("has memory of the host"));
}

TEST(StrictDevice, WaitsAreCounted) {
  const at::Tensor x = on(0), mask = x > 0, ids = at::arange(2, x.options().dtype(at::kLong));
  const auto waits = [](const auto& call) { return counts_of(call).waits; };
  EXPECT_EQ(waits([&] { x.sum().item<double>(); }), 1);
  EXPECT_EQ(waits([&] { at::nonzero(mask); }), 1);
  EXPECT_EQ(waits([&] { x.index({mask}); }), 1);
  EXPECT_EQ(waits([&] { at::unique_dim(ids, 0); }), 1);
  EXPECT_EQ(waits([&] { x.cpu(); }), 1);
  EXPECT_EQ(waits([&] { at::ones({2}).to(strict::device()); }), 1);
  EXPECT_EQ(waits([&] { at::ones({2}).to(strict::device(), at::kFloat, /*non_blocking=*/true); }), 1);
  EXPECT_EQ(waits([&] { x.index({at::arange(1)}); }), 1);
  EXPECT_EQ(waits([&] { x.equal(x); }), 1);
  EXPECT_EQ(waits([&] { x.index({ids}); }), 0);
  EXPECT_EQ(waits([&] { x.index_select(0, ids) + 1.0; }), 0);
  EXPECT_EQ(waits([&] { to_device(at::ones({2}), strict::device()); }), 0);
}

TEST(StrictDevice, LaunchesAreCounted) {
  const at::Tensor x = on(0, {2, 4, 3, 8}), weight = on(0, {8});
  const auto launches = [](const auto& call) { return counts_of(call).launches; };
  EXPECT_EQ(launches([&] { x + x; }), 1);
  EXPECT_EQ(launches([&] { x.transpose(1, 2).select(0, 0).narrow(0, 0, 1); }), 0);
  EXPECT_EQ(launches([&] { at::empty({3}, x.options()); }), 0);
  EXPECT_EQ(launches([&] { x.transpose(1, 2).contiguous(); }), 1);
  EXPECT_EQ(launches([&] { at::layer_norm(x, {8}, weight, weight); }), 1);
  EXPECT_EQ(launches([&] { at::scaled_dot_product_attention(x, x, x); }), 1);
}

TEST(StrictDevice, WaitsAreRefusedWhileSomethingIsRecorded) {
  const at::Tensor x = on(0);
  {
    const strict::Recording recording;
    EXPECT_EQ(refusal([&] { x * 2.0 + x; }), "");
    EXPECT_THAT(refusal([&] { x.sum().item<double>(); }), HasSubstr("item makes the host wait"));
    EXPECT_THAT(refusal([&] { x.cpu(); }), HasSubstr("makes the host wait"));
  }
  EXPECT_EQ(x.sum().item<double>(), 6.0);
}

TEST(StrictDevice, SaysWhereAWaitComesFrom) {
  const strict::Trace trace;
  on(0).sum().item<double>();
  EXPECT_THAT(trace.text(), HasSubstr("1 waits: item"));
  EXPECT_THAT(trace.text(), HasSubstr("SaysWhereAWaitComesFrom"));
}

TEST(StrictDevice, GradientsPassThroughIt) {
  const at::Tensor x = on(0).requires_grad_(true);
  (x * x).sum().backward();
  EXPECT_TRUE(x.grad().cpu().equal(at::ones({2, 3}) * 2.0));
}

TEST(StrictDevice, ItsMemoryRunsOut) {
  const std::int64_t before = strict::bytes_in_use();
  const at::TensorOptions bytes = at::TensorOptions(at::kByte).device(strict::device());
  const auto page = [&] { return at::empty({4096}, bytes); };
  {
    const at::Tensor one = page();
    EXPECT_EQ(strict::bytes_in_use() - before, 4096);
    const strict::MemoryLimit limit(before + 3 * 4096);
    const at::Tensor two = page(), three = page();
    EXPECT_THAT(refusal(page), HasSubstr("out of memory. Tried to allocate 4096 bytes"));
    EXPECT_THROW(page(), c10::OutOfMemoryError);
    EXPECT_EQ(limit.refusals(), 2);
    EXPECT_EQ(limit.peak(), before + 3 * 4096);
    EXPECT_NO_THROW(on(1)) << "another device has memory of its own";
  }
  EXPECT_EQ(strict::bytes_in_use(), before);
  EXPECT_NO_THROW(page());
}

TEST(StrictDevice, AnAllocationFails) {
  const at::TensorOptions there = at::TensorOptions(at::kFloat).device(strict::device());
  const auto outcomes = [&](std::int64_t k, strict::RunsOut runs_out) {
    const strict::FailingAllocation failing(k, runs_out);
    EXPECT_FALSE(failing.failed());
    std::vector<bool> failed;
    for (int i = 0; i < 4; ++i) failed.push_back(refusal([&] { at::empty({1}, there); }) != "");
    EXPECT_TRUE(failing.failed());
    return failed;
  };
  EXPECT_THAT(outcomes(2, strict::RunsOut::once), testing::ElementsAre(false, true, false, false));
  EXPECT_THAT(outcomes(2, strict::RunsOut::for_good), testing::ElementsAre(false, true, true, true));
  EXPECT_NO_THROW(at::empty({1}, there));
}

TEST(StrictDevice, IsOpenedByName) {
  EXPECT_EQ(open_device("strict"), strict::device(0));
  EXPECT_EQ(open_device("strict:1"), strict::device(1));
  const auto error = thrown_by<IoError>([] { open_device("strict:3"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("3 visible"));
}

}  // namespace
}  // namespace hooked::strict_device_test
