#include "hooked/core/error.h"

#include <gtest/gtest.h>

namespace hooked::error_test {
namespace {

TEST(Error, GivesCopiesOfATemporary) {
  const auto& where = Error("a place with a long name", "message").where();
  const auto& message = Error("a place", "a message that is longer than a small string").message();
  EXPECT_EQ(where, "a place with a long name");
  EXPECT_EQ(message, "a message that is longer than a small string");
}

TEST(Error, PutsWhereInBrackets) {
  const ShapeError error("tokens", "wrong rank; expected [batch, pos], got [5]");
  EXPECT_EQ(error.where(), "tokens");
  EXPECT_STREQ(error.what(), "[tokens] wrong rank; expected [batch, pos], got [5]");
}

template <class Class>
class ErrorClass : public testing::Test {};
using Classes =
    testing::Types<CheckpointError, ConfigError, ShapeError, HookError, TokenizerError, IoError, MemoryError>;
TYPED_TEST_SUITE(ErrorClass, Classes);

TYPED_TEST(ErrorClass, IsCaughtAsTheRootAndAsStandard) {
  EXPECT_THROW(throw TypeParam("a", "b"), Error);
  EXPECT_THROW(throw TypeParam("a", "b"), std::runtime_error);
}

}  // namespace
}  // namespace hooked::error_test
