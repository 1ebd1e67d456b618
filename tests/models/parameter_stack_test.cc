#include "models/graph/graph.h"
#include "tests/support/test.h"

namespace hooked::parameter_stack_test {
namespace {

TEST(ParameterStack, HoldsTheParametersOfAllModulesSideBySide) {
  ParameterStack stack(3);
  const at::TensorOptions options(at::kDouble);
  for (std::int64_t module = 0; module < 3; ++module) {
    stack.part("W", module, {2, 4}, options).fill_(module);
    stack.part("b", module, {2}, options).fill_(10 + module);
  }
  ASSERT_EQ(stack.whole("W").sizes(), (at::IntArrayRef{3, 2, 4}));
  for (std::int64_t module = 0; module < 3; ++module) {
    EXPECT_TRUE((stack.whole("W")[module] == module).all().item<bool>());
    EXPECT_TRUE((stack.whole("b")[module] == 10 + module).all().item<bool>());
  }
  EXPECT_FALSE(stack.whole("V").defined());
}

TEST(ParameterStack, GivesLeavesThatTakeGradientsOneByOne) {
  ParameterStack stack(2);
  at::Tensor first = stack.part("W", 0, {3}, at::TensorOptions(at::kDouble)).fill_(1.0);
  const at::Tensor second = stack.part("W", 1, {3}, at::TensorOptions(at::kDouble)).fill_(2.0);
  first.requires_grad_(true);
  EXPECT_TRUE(first.is_leaf());
  EXPECT_FALSE(first.is_view());
  (first * second).sum().backward();
  EXPECT_TRUE(first.grad().equal(second));
  EXPECT_FALSE(stack.whole("W").requires_grad());
}

}  // namespace
}  // namespace hooked::parameter_stack_test
