#include "io/gguf/ggml_types.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

// Note [GGML's blocks]
// A block has one or two factors in half precision (`d`, and `m` or `dmin` for an offset), and its numbers in
// a few bits each. Blocks of 32 numbers have one half of them in the lower and the other in the upper nibbles
// of 16 bytes. Blocks of 256 ("K") have groups of 16 or 32 numbers with a scale of a few bits each, and a
// byte has the bits of numbers that are not neighbours. Products and sums are rounded one by one, in this
// order, which makes the last bits equal those of other readers.
//
// The decoders agree to the last bit with what the package `gguf` computes in float32. The table gives the
// bytes of a block and how many numbers it decodes to.

namespace hooked {
namespace {

using at::ScalarType;

unsigned byte_at(const std::byte* bytes, int i) { return std::to_integer<unsigned>(bytes[i]); }

float half_at(const std::byte* bytes) {
  const auto bits = static_cast<std::uint16_t>(byte_at(bytes, 0) | byte_at(bytes, 1) << 8U);
  return static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
}

// Number `i` of 32 that lie in the nibbles of 16 bytes.
int nibble_of_32(const std::byte* bytes, int i) {
  return static_cast<int>(i < 16 ? byte_at(bytes, i) & 15U : byte_at(bytes, i - 16) >> 4U);
}

// The fifth bits of 32 numbers.
int fifth_bit(const std::byte* bits, int i) { return static_cast<int>(byte_at(bits, i / 8) >> (i % 8) & 1U); }

// Number `i` of 256: two bits, 128 of them in 32 bytes.
int two_bits(const std::byte* bytes, int i) {
  return static_cast<int>(byte_at(bytes, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3U);
}

// Number `i` of 256: four bits, 64 of them in 32 bytes.
int four_bits(const std::byte* bytes, int i) {
  return static_cast<int>(byte_at(bytes, i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15U);
}

// Number `i` of 256: one bit, all of them in 32 bytes.
int one_bit(const std::byte* bytes, int i) {
  return static_cast<int>(byte_at(bytes, i % 32) >> (i / 32) & 1U);
}

/// Eight scales and eight offsets of six bits in 12 bytes.
struct ScalesAndMins {
  std::array<float, 8> scales, mins;
};

ScalesAndMins unpacked(const std::byte* packed, float d, float dmin) {
  ScalesAndMins all{};
  for (int i = 0; i < 4; ++i) {
    const unsigned scale = byte_at(packed, i), min = byte_at(packed, 4 + i), both = byte_at(packed, 8 + i);
    const auto at = static_cast<std::size_t>(i);
    all.scales[at] = d * static_cast<float>(scale & 63U);
    all.mins[at] = dmin * static_cast<float>(min & 63U);
    all.scales[at + 4] = d * static_cast<float>((both & 15U) | (scale >> 2U & 0x30U));
    all.mins[at + 4] = dmin * static_cast<float>(both >> 4U | (min >> 2U & 0x30U));
  }
  return all;
}

void decode_q4_0(const std::byte* block, float* into) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) into[i] = d * static_cast<float>(nibble_of_32(block + 2, i) - 8);
}

void decode_q4_1(const std::byte* block, float* into) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < 32; ++i) {
    const float product = d * static_cast<float>(nibble_of_32(block + 4, i));
    into[i] = product + m;
  }
}

void decode_q5_0(const std::byte* block, float* into) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const int number = nibble_of_32(block + 6, i) | fifth_bit(block + 2, i) << 4;
    into[i] = d * static_cast<float>(number - 16);
  }
}

void decode_q5_1(const std::byte* block, float* into) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < 32; ++i) {
    const float product = d * static_cast<float>(nibble_of_32(block + 8, i) | fifth_bit(block + 4, i) << 4);
    into[i] = product + m;
  }
}

void decode_q8_0(const std::byte* block, float* into) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    into[i] = static_cast<float>(static_cast<std::int8_t>(byte_at(block, 2 + i))) * d;
  }
}

void decode_q2_k(const std::byte* block, float* into) {
  const std::byte* const numbers = block + 16;
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const unsigned packed = byte_at(block, i / 16);
    const float scale = d * static_cast<float>(packed & 15U), min = dmin * static_cast<float>(packed >> 4U);
    const float product = scale * static_cast<float>(two_bits(numbers, i));
    into[i] = product - min;
  }
}

void decode_q3_k(const std::byte* block, float* into) {
  const std::byte *const high = block, *const numbers = block + 32, *const packed = block + 96;
  const float d = half_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    const unsigned low = group < 8 ? byte_at(packed, group) & 15U : byte_at(packed, group - 8) >> 4U;
    const unsigned rest = byte_at(packed, 8 + group % 4) >> (group / 4 * 2) & 3U;
    const float scale = d * static_cast<float>(static_cast<int>(low | rest << 4U) - 32);
    const int number = two_bits(numbers, i) - (one_bit(high, i) == 0 ? 4 : 0);  // a set bit subtracts nothing
    into[i] = scale * static_cast<float>(number);
  }
}

void decode_q4_k(const std::byte* block, float* into) {
  const ScalesAndMins groups = unpacked(block + 4, half_at(block), half_at(block + 2));
  for (int i = 0; i < 256; ++i) {
    const auto group = static_cast<std::size_t>(i / 32);
    const float product = groups.scales[group] * static_cast<float>(four_bits(block + 16, i));
    into[i] = product - groups.mins[group];
  }
}

void decode_q5_k(const std::byte* block, float* into) {
  const ScalesAndMins groups = unpacked(block + 4, half_at(block), half_at(block + 2));
  const std::byte *const high = block + 16, *const numbers = block + 48;
  for (int i = 0; i < 256; ++i) {
    const auto group = static_cast<std::size_t>(i / 32);
    const int number = four_bits(numbers, i) | one_bit(high, i) << 4;
    const float product = groups.scales[group] * static_cast<float>(number);
    into[i] = product - groups.mins[group];
  }
}

void decode_q6_k(const std::byte* block, float* into) {
  const std::byte *const high = block + 128, *const scales = block + 192;
  const float d = half_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const unsigned low = byte_at(block, half * 64 + i % 64) >> (i / 64 % 2 * 4) & 15U;
    const unsigned rest = byte_at(high, half * 32 + i % 32) >> (i / 32 % 4 * 2) & 3U;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(byte_at(scales, i / 16)));
    into[i] = scale * static_cast<float>(static_cast<int>(low | rest << 4U) - 32);
  }
}

void decode_mxfp4(const std::byte* block, float* into) {
  constexpr std::array<float, 16> kDoubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const unsigned exponent = byte_at(block, 0);
  // Half of 2^(exponent - 127), because the numbers are doubled.
  const float factor = std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23U);
  for (int i = 0; i < 32; ++i)
    into[i] = factor * kDoubled[static_cast<std::size_t>(nibble_of_32(block + 1, i))];
}

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
