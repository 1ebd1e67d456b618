// The main function of test programs. If HOOKED_KERNELS names a set of kernels that this processor lacks,
// no test runs, and the exit status says so to ctest (SKIP_RETURN_CODE in tests/CMakeLists.txt).
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "hooked/core/error.h"
#include "hooked/core/kernel_set.h"

namespace {

constexpr int kNotRun = 77;

bool names_a_set(std::string_view name) {
  using enum hooked::KernelSet;
  for (const hooked::KernelSet set : {plain, avx2, avx512, avx512_bf16, amx}) {
    if (name == to_string(set)) return true;
  }
  return false;
}

// A test draws the same random numbers whichever tests ran before it: those that run differ between
// processors.
class SameNumbers : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(c10::default_rng_seed_val);
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new SameNumbers);  // GoogleTest deletes it
  try {
    static_cast<void>(hooked::kernel_set());
  } catch (const hooked::Error& error) {
    fmt::print("{}\n", error.what());
    const char* const asked = std::getenv("HOOKED_KERNELS");
    return asked != nullptr && names_a_set(asked) ? kNotRun : 1;
  }
  return RUN_ALL_TESTS();
}
