#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "models/mlp/mlp.h"
#include "models/sequence/run.h"

namespace hooked {

// Note [Experts that nobody counts]
// How many tokens each expert gets is data, and a host that asks a GPU for it waits. So the rows that experts
// read are put into blocks of one size: each block belongs to one expert, and the largest number of blocks is
// known beforehand. Which expert a block belongs to, and whose rows are in it, is computed on the device.
// Unfilled rows are computed too, but nobody reads them. Padding goes where its router sends it, and nobody
// reads that either.

/// What intermediate results of experts may take if there is a way that needs less memory.
inline constexpr std::int64_t kMostExpertBytes = std::int64_t{256} << 20;

/// How the rows that experts read are laid out.
struct ExpertWay {
  enum Kind : std::uint8_t {
    by_place,   ///< a block of one row per token and rank; the matrices of each are copied
    by_expert,  ///< a block per expert, with all tokens; no matrix is copied
    blocks,     ///< blocks of `rows` rows; the matrices of each are copied
    groups,     ///< no blocks: each expert's rows are adjacent, for grouped products
  };
  Kind kind;
  std::int64_t rows = 0;  ///< of a block; a power of two in `blocks`

  bool operator==(const ExpertWay&) const = default;
};

/// What the choice of the way depends on, known on the host.
struct RoutedSizes {
  std::int64_t tokens;
  std::int64_t ranks;    ///< experts per token
  std::int64_t experts;  ///< in the mixture
  /// Whether an expert reads a different input for each rank of a token; edits may give it several.
  bool own_rows = false;
  std::int64_t row_bytes;  ///< of what an expert writes for one token
};

/// The fastest of the first three, by how many matrices are read and copied, and how many rows are multiplied
/// by each.
ExpertWay way_of(const RoutedSizes& sizes);

/// Rows of tokens, arranged for their experts on the device. Rows are numbered through all blocks.
struct ExpertBlocks {
  std::int64_t count;  ///< blocks
  std::int64_t rows;   ///< of each block
  at::Tensor tokens;   ///< [row] int64: the token of each row; undefined: each block holds all tokens
  at::Tensor experts;  ///< [block] int64; undefined: block e belongs to expert e
  /// [token * rank] int64: where a token's row for that rank is; undefined: in order, or, if each block holds
  /// all tokens, the token's row in the block of its expert.
  at::Tensor row_of;
};

/// For `chosen` [token, rank] int64, each in [0, `experts`). For a way with blocks.
ExpertBlocks blocks_of(const at::Tensor& chosen, std::int64_t experts, const ExpertWay& way);

/// The same rows without blocks.
struct ExpertGroups {
  at::Tensor tokens;   ///< [row] int64: the token of each row
  at::Tensor experts;  ///< [row] int64, ascending
  at::Tensor ends;     ///< [expert] int32: one past each expert's last row
  at::Tensor row_of;   ///< as for blocks
};

/// For the same `chosen`.
ExpertGroups groups_of(const at::Tensor& chosen, std::int64_t experts);

/// The experts of a mixture as one: their weights are stored together, and products of many experts are one
/// product. Callers need not know how many tokens each expert gets (Note [Experts that nobody counts]). Gated
/// MLPs without points.
class StackedExperts {
 public:
  struct Weights {
    at::Tensor W_in;   ///< [expert, 2 d_expert, d_model]: gate rows, then up rows
    at::Tensor b_in;   ///< [expert, 2 d_expert]; undefined without one
    at::Tensor W_out;  ///< [expert, d_model, d_expert]
    at::Tensor b_out;  ///< [expert, d_model]; undefined without one
  };
  /// `in_groups`: see GraphContext::multiplies_groups.
  /// `weighted_inputs`: tokens are multiplied by their weights before their experts read them, else the
  /// experts' outputs are.
  StackedExperts(Weights weights, Neurons neurons, bool in_groups, bool weighted_inputs = false);

  /// Which experts write for which tokens.
  struct Chosen {
    at::Tensor experts;  ///< [token, rank] int64, each an expert's number
    at::Tensor weights;  ///< [token, rank]
  };
  /// The sum for each token, [token, d_model], of its experts' weighted outputs for tokens [token, d_model].
  /// `way`: absent for the fastest.
  at::Tensor forward(const at::Tensor& tokens, const Chosen& chosen, Memory memory,
                     std::optional<ExpertWay> way = std::nullopt) const;

 private:
  at::Tensor neurons(const at::Tensor& both, Memory memory) const;
  /// The outputs in all blocks' rows, [row, d_model]. If `weights` [row, one] are defined, they multiply the
  /// inputs.
  at::Tensor in_blocks(const at::Tensor& tokens, const ExpertBlocks& blocks, const at::Tensor& weights,
                       Memory memory) const;
  at::Tensor in_groups(const at::Tensor& tokens, const ExpertGroups& groups, const at::Tensor& weights,
                       Memory memory) const;
  /// Blocks whose intermediate results, and the matrices that are copied for them, take little memory.
  std::int64_t blocks_at_a_time(const ExpertBlocks& blocks) const;

  Weights weights_;
  Neurons neurons_;
  bool in_groups_;
  bool weighted_inputs_;
};

}  // namespace hooked
