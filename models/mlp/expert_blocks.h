#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hooked {

// Note [Experts that nobody counts]
// How many tokens each expert gets is data, and a host that asks a GPU for it waits. So the rows that experts
// read are put into blocks of one size: each block is one expert's, and how many blocks there are at most is
// known beforehand. Which expert a block is, and whose rows are in it, is found on the device. What is not
// filled is computed and read by nobody. Padding goes where its router sends it, and is read by nobody
// either.

/// What intermediate results of experts may take where there is a way of less memory.
inline constexpr std::int64_t kMostExpertBytes = std::int64_t{256} << 20;

/// How the rows that experts read lie.
struct ExpertWay {
  enum Kind : std::uint8_t {
    by_place,   ///< a block of one row for each token and rank; the matrices of each are copied
    by_expert,  ///< a block for each expert, of all tokens; no matrix is copied
    blocks,     ///< blocks of `rows` rows; the matrices of each are copied
    groups,     ///< no blocks: each expert's rows side by side, for products in groups
  };
  Kind kind;
  std::int64_t rows = 0;  ///< of a block; a power of two in `blocks`

  bool operator==(const ExpertWay&) const = default;
};

/// What decides on the way: known on the host.
struct RoutedSizes {
  std::int64_t tokens;
  std::int64_t ranks;    ///< experts of each token
  std::int64_t experts;  ///< of the mixture
  /// Whether what an expert reads for a token is another thing for each rank, and edits may give it several.
  bool own_rows = false;
  std::int64_t row_bytes;  ///< of what an expert writes for one token
};

/// The fastest of the first three: by how many matrices are read and copied, and how many rows are multiplied
/// by one.
ExpertWay way_of(const RoutedSizes& sizes);

/// Rows of tokens, arranged for their experts on the device. A row's number counts through all blocks.
struct ExpertBlocks {
  std::int64_t count;  ///< blocks
  std::int64_t rows;   ///< of each block
  at::Tensor tokens;   ///< [row] int64: whose row it is; undefined: each block holds all tokens
  at::Tensor experts;  ///< [block] int64; undefined: block e is expert e's
  /// [token * rank] int64: where a token's row for that rank is; undefined: in order, or, where each block
  /// holds all tokens, the token's row of the block of its expert.
  at::Tensor row_of;
};

/// For `chosen` [token, rank] int64, each from 0 to before `experts`. Of a way with blocks.
ExpertBlocks blocks_of(const at::Tensor& chosen, std::int64_t experts, const ExpertWay& way);

/// The same rows without blocks.
struct ExpertGroups {
  at::Tensor tokens;   ///< [row] int64: whose row it is
  at::Tensor experts;  ///< [row] int64, ascending
  at::Tensor ends;     ///< [expert] int32: one past each expert's last row
  at::Tensor row_of;   ///< as of blocks
};

/// For the same `chosen`.
ExpertGroups groups_of(const at::Tensor& chosen, std::int64_t experts);

}  // namespace hooked
