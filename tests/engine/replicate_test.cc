// On several devices: tests/device/replicas_test.cc.
#include "hooked/engine/replicate.h"

#include "tests/support/tiny_model.h"

namespace hooked {
namespace {

TEST(Replicate, WhereTheModelLiesItIsTheModel) {
  const auto model = HookedTransformer::create(small_config());
  const auto replicas = replicate(model, "cpu");
  ASSERT_EQ(replicas.size(), 1);
  EXPECT_EQ(replicas.front().loaded(), model.loaded());
}

TEST(Replicate, HandlesHaveNoHooks) {
  auto model = HookedTransformer::create(small_config());
  const auto attached = model.hook(act::resid_pre(0), [](const at::Tensor&) {});
  EXPECT_TRUE(replicate(model, "cpu").front().hooks().empty());
}

TEST(Replicate, RefusesDevicesAsLoadingDoes) {
  const auto model = HookedTransformer::create(small_config());
  EXPECT_THROW(replicate(model, "toaster"), ConfigError);
  EXPECT_THROW(replicate(model, "cpu,cpu"), ConfigError);
}

}  // namespace
}  // namespace hooked
