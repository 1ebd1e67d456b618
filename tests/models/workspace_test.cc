#include "models/storage/workspace.h"

#include <sys/resource.h>

#include <memory>
#include <thread>

#include "tests/models/random_graph.h"

namespace hooked::workspace_test {
namespace {

const at::TensorOptions kFloat = at::TensorOptions(at::kFloat);
constexpr std::int64_t kBig = 100000;  // floats: well above what LibTorch's own allocator keeps

TEST(Workspace, MakesTensorsOfTheAskedKind) {
  const Workspace workspace;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
    for (const std::int64_t rows : {0, 1, 7, 3000}) {
      const at::Tensor made = workspace.empty({rows, 50}, at::TensorOptions(dtype));
      EXPECT_EQ(made.sizes(), (at::IntArrayRef{rows, 50}));
      EXPECT_EQ(made.scalar_type(), dtype);
      EXPECT_TRUE(made.is_contiguous());
      EXPECT_TRUE(made.device().is_cpu());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.data_ptr()) % 64, 0u);
    }
  }
}

TEST(Workspace, MemoryIsReusedOnceItsLastHandleWent) {
  const Workspace workspace;
  at::Tensor first = workspace.empty({kBig}, kFloat);
  const void* memory = first.data_ptr();
  at::Tensor view = first.narrow(0, 10, 20);
  first.reset();
  EXPECT_NE(workspace.empty({kBig}, kFloat).data_ptr(), memory) << "a view still holds it";
  view.reset();
  EXPECT_EQ(workspace.empty({kBig}, kFloat).data_ptr(), memory);
}

// The allocations of a run of some length: a few tensors at a time, in several sizes.
void use(const Workspace& workspace, std::int64_t length) {
  std::vector<at::Tensor> kept;
  for (int layer = 0; layer < 6; ++layer) {
    at::Tensor wide = workspace.empty({length, 3000}, kFloat),
               square = workspace.empty({16, length, length}, kFloat);
    wide.fill_(1.0);
    square.fill_(1.0);
    kept.push_back(workspace.empty({length, 700}, kFloat));
    kept.back().fill_(1.0);
  }
}

std::int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST(Workspace, ShapesThatAlternateFaultNoPagesAfterTheirFirstTime) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer has memory of its own";
#endif
  const Workspace workspace;
  const std::vector<std::int64_t> lengths = {64, 200, 33, 128};
  for (const std::int64_t length : lengths) use(workspace, length);
  const std::int64_t before = page_faults();
  for (int round = 0; round < 5; ++round) {
    for (const std::int64_t length : lengths) use(workspace, length);
  }
  EXPECT_LE(page_faults() - before, 5);
}

TEST(Workspace, HoldsLittleMoreThanWasInUseAtATime) {
  const Workspace workspace;
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  for (int i = 1; i <= 60; ++i) workspace.empty({i, 1 << 18}, kFloat);  // 1 to 60 MB, one at a time
  EXPECT_LE(workspace.mapped_bytes(), 2 * 60 * kMegabyte + 8 * kMegabyte);
  EXPECT_GE(workspace.mapped_bytes(), 60 * kMegabyte);
}

TEST(Workspace, TrimGivesBackWhatNoTensorIsIn) {
  const Workspace workspace;
  at::Tensor kept = workspace.empty({kBig}, kFloat);
  kept.fill_(2.0);
  workspace.empty({100 * kBig}, kFloat);
  const std::size_t before = workspace.mapped_bytes();
  workspace.trim();
  EXPECT_LT(workspace.mapped_bytes(), before);
  EXPECT_TRUE(kept.eq(2.0).all().item<bool>());
  kept.reset();
  workspace.trim();
  EXPECT_EQ(workspace.mapped_bytes(), 0u);
}

TEST(Workspace, WhatIsNotUsedForLongIsGivenBack) {
  const Workspace workspace;
  workspace.empty({100 * kBig}, kFloat);  // 40 MB, once
  for (int i = 0; i < 60'000; ++i) workspace.empty({kBig}, kFloat);
  EXPECT_LT(workspace.mapped_bytes(), std::size_t{8} << 20);
}

TEST(Workspace, TensorsInUseDoNotShareMemory) {
  const Workspace workspace;
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(workspace.empty({kBig + i * 1000}, kFloat));
    tensors.back().fill_(i);
  }
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(tensors[static_cast<std::size_t>(i)].eq(i).all().item<bool>()) << i;
}

TEST(Workspace, TensorsOutliveIt) {
  at::Tensor kept;
  {
    const Workspace workspace;
    kept = workspace.empty({kBig}, kFloat);
    kept.fill_(3.0);
  }
  EXPECT_TRUE(kept.eq(3.0).all().item<bool>());
}

TEST(Workspace, ActivationsOutliveTheModel) {
  at::Tensor resid, copy;
  {
    ModelConfig config = graph_config();
    config.d_model = 512;
    config.n_ctx = 64;
    const RandomGraph graph(config);
    const at::Tensor tokens = at::randint(9, {4, 64}, at::TensorOptions(at::kLong));
    resid = graph.run(tokens, {.capture = act::resid_post(1)}).cache[act::resid_post(1)];
    ASSERT_GT(resid.nbytes(), std::size_t{64} << 10) << "too small to come from the workspace";
    copy = resid.clone();
  }
  std::vector<at::Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(at::rand({4, 64, 512}, at::kDouble));
  EXPECT_TRUE(at::equal(resid, copy));
}

TEST(Workspace, ThreadsTakeAndGiveBackAtOnce) {
  const auto workspace = std::make_shared<Workspace>();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const at::Tensor a = workspace->empty({20000 + 37 * i}, kFloat);
        float* numbers = a.data_ptr<float>();
        for (std::int64_t k = 0; k < a.numel(); ++k) numbers[k] = static_cast<float>(t);
        for (std::int64_t k = 0; k < a.numel(); ++k)
          wrong[static_cast<std::size_t>(t)] += numbers[k] != static_cast<float>(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

TEST(Workspace, TensorsMayDieInAnotherThread) {
  const Workspace workspace;
  at::Tensor made = workspace.empty({kBig}, kFloat);
  const void* memory = made.data_ptr();
  std::thread([tensor = std::move(made)]() mutable { tensor.reset(); }).join();
  EXPECT_EQ(workspace.empty({kBig}, kFloat).data_ptr(), memory);
}

}  // namespace
}  // namespace hooked::workspace_test
