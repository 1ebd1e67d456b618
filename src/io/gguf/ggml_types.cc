#include "io/gguf/ggml_types.h"

#include <algorithm>

#include "io/gguf/ggml_blocks.h"

namespace hooked {
namespace {

using at::ScalarType;

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4, ScalarType::Float, nullptr},
    {1, "F16", 1, 2, ScalarType::Half, nullptr},
    {2, "Q4_0", 32, 18, ScalarType::Float, decode_q4_0},
    {3, "Q4_1", 32, 20, ScalarType::Float, decode_q4_1},
    {6, "Q5_0", 32, 22, ScalarType::Float, decode_q5_0},
    {7, "Q5_1", 32, 24, ScalarType::Float, decode_q5_1},
    {8, "Q8_0", 32, 34, ScalarType::Float, decode_q8_0},
    {9, "Q8_1", 32, 40, ScalarType::Undefined, nullptr},
    {10, "Q2_K", 256, 84, ScalarType::Float, decode_q2_k},
    {11, "Q3_K", 256, 110, ScalarType::Float, decode_q3_k},
    {12, "Q4_K", 256, 144, ScalarType::Float, decode_q4_k},
    {13, "Q5_K", 256, 176, ScalarType::Float, decode_q5_k},
    {14, "Q6_K", 256, 210, ScalarType::Float, decode_q6_k},
    {15, "Q8_K", 256, 292, ScalarType::Undefined, nullptr},
    {16, "IQ2_XXS", 256, 66, ScalarType::Undefined, nullptr},
    {17, "IQ2_XS", 256, 74, ScalarType::Undefined, nullptr},
    {18, "IQ3_XXS", 256, 98, ScalarType::Undefined, nullptr},
    {19, "IQ1_S", 256, 50, ScalarType::Undefined, nullptr},
    {20, "IQ4_NL", 32, 18, ScalarType::Undefined, nullptr},
    {21, "IQ3_S", 256, 110, ScalarType::Undefined, nullptr},
    {22, "IQ2_S", 256, 82, ScalarType::Undefined, nullptr},
    {23, "IQ4_XS", 256, 136, ScalarType::Undefined, nullptr},
    {24, "I8", 1, 1, ScalarType::Char, nullptr},
    {25, "I16", 1, 2, ScalarType::Short, nullptr},
    {26, "I32", 1, 4, ScalarType::Int, nullptr},
    {27, "I64", 1, 8, ScalarType::Long, nullptr},
    {28, "F64", 1, 8, ScalarType::Double, nullptr},
    {29, "IQ1_M", 256, 56, ScalarType::Undefined, nullptr},
    {30, "BF16", 1, 2, ScalarType::BFloat16, nullptr},
    {34, "TQ1_0", 256, 54, ScalarType::Undefined, nullptr},
    {35, "TQ2_0", 256, 66, ScalarType::Undefined, nullptr},
    {39, "MXFP4", 32, 17, ScalarType::Float, decode_mxfp4},
    {40, "NVFP4", 64, 36, ScalarType::Undefined, nullptr},
    {41, "Q1_0", 128, 18, ScalarType::Undefined, nullptr},
};

}  // namespace

std::span<const GgmlType> ggml_types() { return kGgmlTypes; }

const GgmlType* find_ggml_type(std::uint32_t number) {
  const auto* const found = std::ranges::find(kGgmlTypes, number, &GgmlType::number);
  return found == std::end(kGgmlTypes) ? nullptr : found;
}

std::string supported_ggml_types() {
  std::string names;
  for (const GgmlType& type : kGgmlTypes) {
    if (type.dtype == ScalarType::Undefined) continue;
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

}  // namespace hooked
