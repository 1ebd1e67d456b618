#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hooked {

// Note [Codes]
// A quantised weight is a code of a few bits. Neighbours along the inputs, a group, share a scale, and a
// block of one or more groups shares a factor:
//
//   number = factor * scale * value(code) + offset
//
// A code of four bits may have its value in a table; others are their own values, less the middle. All
// formats of GGUF's files are rows of this form; what differs is the order of bits in the file, which is
// unpacked once, when the file is read. A product `factor * scale * value` is exact in float32 in all forms
// with an offset, so that it does not matter whether the sum is rounded once or twice.

/// How a block's factor, and its offset, are stored.
enum class CodeFactors : std::uint8_t { half, bfloat16 };

/// How the groups of a block have scales of their own.
enum class CodeScales : std::uint8_t {
  none,   ///< they have none: a block is one group
  bytes,  ///< a signed byte each
  pairs   ///< the lower four bits of a byte, whose upper four are the minimum
};

/// What is added to a number in addition to its product.
enum class CodeOffsets : std::uint8_t {
  none,
  added,    ///< the block's offset
  minimums  ///< less the block's offset times the group's minimum, an unsigned byte
};

/// The form in which the numbers of a matrix are stored.
struct CodedForm {
  int bits = 4;          ///< of a code: 2, 3, 4, 5, 6 or 8
  bool tabled = false;   ///< values are in the table, for codes of four bits
  float table[16] = {};  ///< values by code
  int middle = 0;        ///< of codes that are their own values
  int group = 32;        ///< inputs that share a scale: 16, or a multiple of 32
  int block = 32;        ///< inputs that share a factor: a multiple of 32, at most kMostBlock
  CodeFactors factors = CodeFactors::half;
  CodeScales scales = CodeScales::none;
  CodeOffsets offsets = CodeOffsets::none;

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
