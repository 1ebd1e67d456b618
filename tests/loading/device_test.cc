// A device is opened in a separate process, because LibTorch decides once per process whether it has CUDA.
#include "loading/fill/device.h"

#include <gtest/gtest.h>

#include <string>

#include "hooked/core/error.h"
#include "tests/support/run_program.h"
#include "tests/support/thrown_by.h"

namespace hooked::device_test {
namespace {

// The output of `open_device` if LibTorch's CUDA library is the fake, which sees one device.
std::string opened_with_stand_in(const std::string& argument = "") {
  return run_test_program("open_device", argument, "LD_LIBRARY_PATH='" HOOKED_BINARY_DIR "/tests/fake_cuda'")
      .output;
}

TEST(Device, CudaIsOpenedWhereItsLibraryIsThere) { EXPECT_EQ(opened_with_stand_in(), "cuda:0\n"); }

// The same with LibTorch's own CUDA half: its hooks are real, and only the number of devices is not.
TEST(Device, CudaIsOpenedWithLibTorchsOwnLibrary) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer wants to be the first library itself";
#endif
  const std::string preload = "LD_PRELOAD='" HOOKED_BINARY_DIR "/tests/one_gpu/libone_gpu.so'";
  const std::string output = run_test_program("open_device", "", preload).output;
  if (output.find("could not be loaded") != std::string::npos) {
    GTEST_SKIP() << "scripts/setup.sh --cuda fetches what is missing: " << output;
  }
  EXPECT_EQ(output, "cuda:0\n");
}

TEST(Device, SaysWhenLibTorchWasAskedForCudaTooEarly) {
  const std::string output = opened_with_stand_in("gradients");
  EXPECT_NE(output.find("[cuda] LibTorch was asked for CUDA before its CUDA library was loaded"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("open the first CUDA model or cache_device before that"), std::string::npos)
      << output;
}

TEST(Device, TheCpuNeedsNothing) { EXPECT_TRUE(open_device("cpu").is_cpu()); }

TEST(Device, NamesThatAreNotValidAreErrors) {
  for (const char* name : {"gpu", "cuda:x", "meta", "", "cpu:-1"}) {
    const auto error = thrown_by<ConfigError>([&] { open_device(name); });
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->where(), "device");
  }
}

}  // namespace
}  // namespace hooked::device_test
