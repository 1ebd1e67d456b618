#include "hooked/loading/device_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooked/core/error.h"
#include "hooked/loading/load_options.h"
#include "loading/fill/device.h"

namespace hooked {
namespace {

using testing::ElementsAre;

TEST(DeviceNames, AreOneNameOrAList) {
  EXPECT_THAT(LoadOptions().device.all(), ElementsAre("cpu"));
  EXPECT_THAT(LoadOptions{.device = "cuda:1"}.device.all(), ElementsAre("cuda:1"));
  EXPECT_THAT((LoadOptions{.device = {"cuda:0", "cuda:1"}}.device.all()), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(LoadOptions{.device = std::string("cuda:2,cuda:0")}.device.all(),
              ElementsAre("cuda:2", "cuda:0"));
  EXPECT_THAT(DeviceNames("cpu,").all(), ElementsAre("cpu", ""));
}

TEST(DeviceNames, SayWhetherThereMayBeSeveral) {
  EXPECT_FALSE(DeviceNames("cuda").names_several());
  EXPECT_TRUE(DeviceNames("cuda:0,cuda:1").names_several());
  EXPECT_TRUE(DeviceNames("cuda:all").names_several());
}

TEST(DeviceNames, AreOpenedOnce) {
  EXPECT_THAT(open_devices("cpu"), ElementsAre(c10::Device(at::kCPU)));
  EXPECT_THROW(open_devices("cpu,cpu"), ConfigError);
  EXPECT_THROW(open_devices("cpu,"), ConfigError);
  EXPECT_THROW(open_devices("cpu,toaster"), ConfigError);
}

}  // namespace
}  // namespace hooked
