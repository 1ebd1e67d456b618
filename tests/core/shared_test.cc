#include "hooked/core/shared.h"

#include <memory>

#include "tests/support/test.h"

namespace hooked::shared_test {
namespace {

TEST(Shared, CopiesReadOneObject) {
  const auto number = std::make_shared<int>(3);
  const Shared<int> one(number, "handle");
  const Shared<int> other = one;
  *one = 4;
  EXPECT_EQ(*other, 4);
  EXPECT_EQ(other.pointer(), number);
}

TEST(Shared, SaysThatItWasMovedFrom) {
  Shared<const std::string> from(std::make_shared<const std::string>("text"), "handle");
  const Shared<const std::string> to = std::move(from);
  EXPECT_EQ(to->size(), 4u);
  for (const auto& use : {+[](const Shared<const std::string>& handle) { (void)handle->size(); },
                          +[](const Shared<const std::string>& handle) { (void)*handle; },
                          +[](const Shared<const std::string>& handle) { (void)handle.pointer(); }}) {
    EXPECT_EQ(
        text_thrown_by<Error>([&] { use(from); }).find("[handle] this handle was moved from; expected "), 0u);
  }
  from = to;
  EXPECT_EQ(*from, "text");
}

}  // namespace
}  // namespace hooked::shared_test
