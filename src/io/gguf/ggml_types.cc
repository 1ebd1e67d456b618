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
// byte has the bits of numbers that are not neighbours.
//
// A block is unpacked into codes, scales and factors, and the type's form says what numbers these are (Note
// [Codes], core/coded_form.h). They agree to the last bit with what the package `gguf` computes in float32.
// The table gives the bytes of a block and how many numbers it holds.

namespace hooked {
namespace {

using at::ScalarType;

unsigned byte_at(const std::byte* bytes, int i) { return std::to_integer<unsigned>(bytes[i]); }

float half_at(const std::byte* bytes) {
  const auto bits = static_cast<std::uint16_t>(byte_at(bytes, 0) | byte_at(bytes, 1) << 8U);
  return static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
}

// Number `i` of 256: two bits, 128 of them in 32 bytes.
unsigned two_bits(const std::byte* bytes, int i) {
  return byte_at(bytes, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3U;
}

// Number `i` of 256: four bits, 64 of them in 32 bytes.
unsigned four_bits(const std::byte* bytes, int i) {
  return byte_at(bytes, i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15U;
}

// Number `i` of 256: one bit, all of them in 32 bytes.
unsigned one_bit(const std::byte* bytes, int i) { return byte_at(bytes, i % 32) >> (i / 32) & 1U; }

using Table = float[16];

constexpr CodedForm with_table(const Table& table) {
  CodedForm form{.values = CodeValues::table};
  for (int code = 0; code < 16; ++code) form.table[code] = table[code];
  return form;
}

// Codes that are their own values, less `middle`.
constexpr CodedForm of_integers(int bits, int middle) { return {.bits = bits, .middle = middle}; }

constexpr CodedForm with_offset(CodedForm form) {
  form.offsets = CodeOffsets::added;
  return form;
}

constexpr CodedForm in_groups(CodedForm form, int group, CodeScales scales, CodeOffsets offsets) {
  form.group = group;
  form.block = 256;
  form.scales = scales;
  form.offsets = offsets;
  return form;
}

constexpr CodedForm powers_of_two(CodedForm form) {
  form.factors = CodeFactors::bfloat16;
  return form;
}

// All of them doubled; so the factor is half of what is stored.
constexpr Table kDoubledE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr Table kNormalLevels = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

constexpr CodedForm kQ4_0 = of_integers(4, 8), kQ4_1 = with_offset(of_integers(4, 0)),
                    kQ5_0 = of_integers(5, 16), kQ5_1 = with_offset(of_integers(5, 0)),
                    kQ8_0 = of_integers(8, 128);
constexpr CodedForm kQ2_K = in_groups(of_integers(2, 0), 16, CodeScales::pairs, CodeOffsets::minimums),
                    kQ3_K = in_groups(of_integers(3, 4), 16, CodeScales::bytes, CodeOffsets::none),
                    kQ4_K = in_groups(of_integers(4, 0), 32, CodeScales::bytes, CodeOffsets::minimums),
                    kQ5_K = in_groups(of_integers(5, 0), 32, CodeScales::bytes, CodeOffsets::minimums),
                    kQ6_K = in_groups(of_integers(6, 32), 16, CodeScales::bytes, CodeOffsets::none);
constexpr CodedForm kIQ4_NL = with_table(kNormalLevels), kMXFP4 = powers_of_two(with_table(kDoubledE2m1));

// The codes of 32 numbers in 16 bytes, and their fifth bits in 4.
void unpack_nibbles(const std::byte* bytes, CodedBlock& into) {
  for (int i = 0; i < 16; ++i) {
    const auto both = byte_at(bytes, i);
    into.codes[static_cast<std::size_t>(i)] = both & 15U;
    into.codes[static_cast<std::size_t>(i + 16)] = both >> 4U;
  }
}

void add_fifth_bits(const std::byte* bits, CodedBlock& into) {
  for (int i = 0; i < 32; ++i)
    into.codes[static_cast<std::size_t>(i)] |= (byte_at(bits, i / 8) >> (i % 8) & 1U) << 4U;
}

// Blocks of 32: the factor, then the offset, the fifth bits and the nibbles, what there is of them.
template <bool kOffset, bool kFifthBits>
void unpack_32(const std::byte* block, CodedBlock& into) {
  into.factor = half_at(block);
  if (kOffset) into.offset = half_at(block + 2);
  const std::byte* const codes = block + (kOffset ? 4 : 2);
  unpack_nibbles(codes + (kFifthBits ? 4 : 0), into);
  if (kFifthBits) add_fifth_bits(codes, into);
}

// Signed bytes.
void unpack_q8_0(const std::byte* block, CodedBlock& into) {
  into.factor = half_at(block);
  for (int i = 0; i < 32; ++i)
    into.codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(byte_at(block, 2 + i) ^ 0x80U);
}

// Fills the codes of 256 numbers: `code(i)`.
template <class Code>
void unpack_256(CodedBlock& into, const Code& code) {
  for (int i = 0; i < 256; ++i) into.codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(code(i));
}

// The scale and the minimum of each group of 16 share a byte.
void unpack_q2_k(const std::byte* block, CodedBlock& into) {
  into.factor = half_at(block + 80);
  into.offset = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    const auto at = static_cast<std::size_t>(group);
    into.scales[at] = static_cast<std::int8_t>(byte_at(block, group) & 15U);
    into.minimums[at] = static_cast<std::uint8_t>(byte_at(block, group) >> 4U);
  }
  unpack_256(into, [&](int i) { return two_bits(block + 16, i); });
}

void unpack_q3_k(const std::byte* block, CodedBlock& into) {
  const std::byte *const high = block, *const numbers = block + 32, *const packed = block + 96;
  into.factor = half_at(block + 108);
  for (int group = 0; group < 16; ++group) {
    const unsigned low = group < 8 ? byte_at(packed, group) & 15U : byte_at(packed, group - 8) >> 4U;
    const unsigned rest = byte_at(packed, 8 + group % 4) >> (group / 4 * 2) & 3U;
    into.scales[static_cast<std::size_t>(group)] =
        static_cast<std::int8_t>(static_cast<int>(low | rest << 4U) - 32);
  }
  unpack_256(into, [&](int i) { return two_bits(numbers, i) | one_bit(high, i) << 2U; });
}

// Eight scales and eight minimums of six bits in 12 bytes.
void unpack_scales_and_minimums(const std::byte* block, CodedBlock& into) {
  into.factor = half_at(block);
  into.offset = half_at(block + 2);
  const std::byte* const packed = block + 4;
  for (int i = 0; i < 4; ++i) {
    const unsigned scale = byte_at(packed, i), minimum = byte_at(packed, 4 + i),
                   both = byte_at(packed, 8 + i);
    const auto at = static_cast<std::size_t>(i);
    into.scales[at] = static_cast<std::int8_t>(scale & 63U);
    into.minimums[at] = static_cast<std::uint8_t>(minimum & 63U);
    into.scales[at + 4] = static_cast<std::int8_t>((both & 15U) | (scale >> 2U & 0x30U));
    into.minimums[at + 4] = static_cast<std::uint8_t>(both >> 4U | (minimum >> 2U & 0x30U));
  }
}

void unpack_q4_k(const std::byte* block, CodedBlock& into) {
  unpack_scales_and_minimums(block, into);
  unpack_256(into, [&](int i) { return four_bits(block + 16, i); });
}

void unpack_q5_k(const std::byte* block, CodedBlock& into) {
  unpack_scales_and_minimums(block, into);
  unpack_256(into, [&](int i) { return four_bits(block + 48, i) | one_bit(block + 16, i) << 4U; });
}

void unpack_q6_k(const std::byte* block, CodedBlock& into) {
  const std::byte *const high = block + 128, *const scales = block + 192;
  into.factor = half_at(block + 208);
  for (int group = 0; group < 16; ++group)
    into.scales[static_cast<std::size_t>(group)] = static_cast<std::int8_t>(byte_at(scales, group));
  unpack_256(into, [&](int i) {
    const int half = i / 128;
    const unsigned low = byte_at(block, half * 64 + i % 64) >> (i / 64 % 2 * 4) & 15U;
    const unsigned rest = byte_at(high, half * 32 + i % 32) >> (i / 32 % 4 * 2) & 3U;
    return low | rest << 4U;
  });
}

void unpack_mxfp4(const std::byte* block, CodedBlock& into) {
  const unsigned exponent = byte_at(block, 0);
  into.factor = std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23U);
  unpack_nibbles(block + 1, into);
}

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4, ScalarType::Float, nullptr, nullptr},
    {1, "F16", 1, 2, ScalarType::Half, nullptr, nullptr},
    {2, "Q4_0", 32, 18, ScalarType::Float, &kQ4_0, unpack_32<false, false>},
    {3, "Q4_1", 32, 20, ScalarType::Float, &kQ4_1, unpack_32<true, false>},
    {6, "Q5_0", 32, 22, ScalarType::Float, &kQ5_0, unpack_32<false, true>},
    {7, "Q5_1", 32, 24, ScalarType::Float, &kQ5_1, unpack_32<true, true>},
    {8, "Q8_0", 32, 34, ScalarType::Float, &kQ8_0, unpack_q8_0},
    {9, "Q8_1", 32, 40, ScalarType::Undefined, nullptr, nullptr},
    {10, "Q2_K", 256, 84, ScalarType::Float, &kQ2_K, unpack_q2_k},
    {11, "Q3_K", 256, 110, ScalarType::Float, &kQ3_K, unpack_q3_k},
    {12, "Q4_K", 256, 144, ScalarType::Float, &kQ4_K, unpack_q4_k},
    {13, "Q5_K", 256, 176, ScalarType::Float, &kQ5_K, unpack_q5_k},
    {14, "Q6_K", 256, 210, ScalarType::Float, &kQ6_K, unpack_q6_k},
    {15, "Q8_K", 256, 292, ScalarType::Undefined, nullptr, nullptr},
    {16, "IQ2_XXS", 256, 66, ScalarType::Undefined, nullptr, nullptr},
    {17, "IQ2_XS", 256, 74, ScalarType::Undefined, nullptr, nullptr},
    {18, "IQ3_XXS", 256, 98, ScalarType::Undefined, nullptr, nullptr},
    {19, "IQ1_S", 256, 50, ScalarType::Undefined, nullptr, nullptr},
    {20, "IQ4_NL", 32, 18, ScalarType::Float, &kIQ4_NL, unpack_32<false, false>},
    {21, "IQ3_S", 256, 110, ScalarType::Undefined, nullptr, nullptr},
    {22, "IQ2_S", 256, 82, ScalarType::Undefined, nullptr, nullptr},
    {23, "IQ4_XS", 256, 136, ScalarType::Undefined, nullptr, nullptr},
    {24, "I8", 1, 1, ScalarType::Char, nullptr, nullptr},
    {25, "I16", 1, 2, ScalarType::Short, nullptr, nullptr},
    {26, "I32", 1, 4, ScalarType::Int, nullptr, nullptr},
    {27, "I64", 1, 8, ScalarType::Long, nullptr, nullptr},
    {28, "F64", 1, 8, ScalarType::Double, nullptr, nullptr},
    {29, "IQ1_M", 256, 56, ScalarType::Undefined, nullptr, nullptr},
    {30, "BF16", 1, 2, ScalarType::BFloat16, nullptr, nullptr},
    {34, "TQ1_0", 256, 54, ScalarType::Undefined, nullptr, nullptr},
    {35, "TQ2_0", 256, 66, ScalarType::Undefined, nullptr, nullptr},
    {39, "MXFP4", 32, 17, ScalarType::Float, &kMXFP4, unpack_mxfp4},
    {40, "NVFP4", 64, 36, ScalarType::Undefined, nullptr, nullptr},
    {41, "Q1_0", 128, 18, ScalarType::Undefined, nullptr, nullptr},
};

}  // namespace

void GgmlType::decode(const std::byte* block, float* into) const {
  CodedBlock unpacked;
  unpack(block, unpacked);
  hooked::decode(*form, unpacked, into);
}

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
