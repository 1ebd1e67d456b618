#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hooked {

// Note [Codes]
// A quantised weight is a code of a few bits. Neighbours along the inputs, a group, share a scale, and a
// block of one or more groups shares a factor:
//
//   number = rounded(factor * scale * value(code) + offset)
//
// A code of four bits may have its value in a table; others are their own values, less the middle, or small
// floating point numbers. All formats of GGUF's files and most of safetensors files are of this form; what
// differs is the order of bits in the file, which is unpacked once, when the file is read. A product `factor
// * scale * value` is exact in float32 in all forms with an offset, so that it does not matter whether the
// sum is rounded once or twice; CodedStrips::holds() refuses factors that are too large for that.

/// What a code means.
enum class CodeValues : std::uint8_t {
  integers,  ///< itself, less the middle
  table,     ///< a number of the form's table, for codes of four bits
  e4m3       ///< a number of eight bits with three of mantissa
};

/// How a block's factor, and its offset, are stored.
enum class CodeFactors : std::uint8_t { half, bfloat16, single };

/// To which precision numbers are rounded after the float32 sum.
enum class CodeRounding : std::uint8_t { none, half, bfloat16 };

/// How the groups of a block have scales of their own.
enum class CodeScales : std::uint8_t {
  none,   ///< they have none: a block is one group
  bytes,  ///< a signed byte each
  pairs   ///< the lower four bits of a byte, whose upper four are the minimum
};

/// What is added to a number in addition to its product.
enum class CodeOffsets : std::uint8_t {
  none,
  added,     ///< the block's offset
  minimums,  ///< less the block's offset times the group's minimum, an unsigned byte
  zeros      ///< less the block's factor times the group's minimum: the code that means 0
};

/// The form in which the numbers of a matrix are stored.
struct CodedForm {
  int bits = 4;  ///< of a code: 2, 3, 4, 5, 6 or 8
  CodeValues values = CodeValues::integers;
  float table[16] = {};  ///< values by code
  int middle = 0;        ///< of codes that are their own values
  int group = 32;        ///< inputs that share a scale: 16, or a multiple of 32
  int block = 32;        ///< inputs that share a factor: a multiple of 32, at most kMostBlock
  CodeFactors factors = CodeFactors::half;
  CodeScales scales = CodeScales::none;
  CodeOffsets offsets = CodeOffsets::none;
  CodeRounding rounding = CodeRounding::none;

  /// Whether groups have minimums in bytes of their own.
  bool has_minimums() const {
    return offsets == CodeOffsets::zeros || (offsets == CodeOffsets::minimums && scales == CodeScales::bytes);
  }
  /// Whether blocks have an offset.
  bool has_offset() const { return offsets == CodeOffsets::added || offsets == CodeOffsets::minimums; }

  static constexpr int kMostBlock = 256;
  static constexpr int kMostGroups = kMostBlock / 16;

  bool operator==(const CodedForm&) const = default;
};

/// A block of one output's weights, unpacked.
struct CodedBlock {
  std::array<std::uint8_t, CodedForm::kMostBlock> codes;
  std::array<std::int8_t, CodedForm::kMostGroups> scales;
  std::array<std::uint8_t, CodedForm::kMostGroups> minimums;
  float factor, offset;
};

/// Writes the numbers of a block.
void decode(const CodedForm& form, const CodedBlock& block, float* into);

}  // namespace hooked
