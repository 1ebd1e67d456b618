#include "hooked/core/tensor_text.h"

#include <gtest/gtest.h>

namespace hooked::tensor_text_test {
namespace {

TEST(TensorText, Shapes) {
  EXPECT_EQ(shape_text({2, 5, 16}), "[2, 5, 16]");
  EXPECT_EQ(shape_text({0}), "[0]");
  EXPECT_EQ(shape_text({}), "[]");
}

TEST(TensorText, DtypesHavePlainNames) {
  EXPECT_EQ(dtype_text(at::kFloat), "float32");
  EXPECT_EQ(dtype_text(at::kLong), "int64");
  EXPECT_EQ(dtype_text(at::kBool), "bool");
  EXPECT_FALSE(dtype_text(at::kComplexFloat).empty());
}

TEST(TensorText, FloatDtypesParseBack) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    EXPECT_EQ(parse_float_dtype(dtype_text(dtype)), dtype) << dtype_text(dtype);
  }
  for (const auto* junk : {"", "int64", "float", "Float32", "torch.float32", "fp16"}) {
    EXPECT_FALSE(parse_float_dtype(junk)) << junk;
  }
}

}  // namespace
}  // namespace hooked::tensor_text_test
