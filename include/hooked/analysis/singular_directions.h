#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "hooked/analysis/circuits.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// A matrix whose singular directions are read, on the side of the stream that is named.
enum class SingularOf : std::uint8_t {
  ov_written,  ///< W_V W_O of a head: what it writes (right singular vectors)
  ov_read,     ///< the same: what it reads (left ones)
  qk_query,    ///< W_Q W_K^T of a head: what a query looks with (left)
  qk_key,      ///< the same: what it looks for (right)
  mlp_in,      ///< W_in: what the neurons read (left)
  mlp_gate,    ///< W_gate of a gated MLP: what its gates read (left)
  mlp_out,     ///< W_out: what they write (right)
};

/// Which singular directions are read, and how. For designated initialisers.
struct SingularOptions {
  SingularOf of = SingularOf::ov_written;  ///< which matrix
  std::int64_t layer = 0;                  ///< negative from the end
  std::int64_t index = 0;                  ///< the head, negative from the end, or the expert of a mixture
  std::int64_t directions = 10;            ///< the n largest; all if the matrix has fewer
  std::int64_t top_k = 5;                  ///< tokens of each side of a direction
  /// Singular values closer than this, relative to the larger one, count as one subspace.
  double equal_within = 1e-6;
  CircuitOptions circuits = {};  ///< which weights, the unembedding included
};

/// Tokens of one singular direction.
struct SingularTokens {
  /// A token and the logit that the direction, of length 1, gives it.
  struct Token {
    std::int64_t token;  ///< its id
    std::string piece;   ///< the token's text, or its id if the model has no tokenizer
    double logit;        ///< before any norm's scale and soft cap
  };
  double value;                ///< the singular value
  std::int64_t subspace;       ///< the first direction with the same value. In a subspace with several
                               ///< directions each is an arbitrary choice: only their span is meaningful
  std::int64_t dimensions;     ///< directions in that subspace, including those that are not shown
  std::vector<Token> raised;   ///< the largest logits, largest first
  std::vector<Token> lowered;  ///< the smallest, smallest first
};

/// Singular directions of a matrix of the model, read through the unembedding.
struct SingularDirections {
  std::string title;                ///< `ov_written 1.3`
  at::Tensor values;                ///< [direction], descending
  at::Tensor directions;            ///< [direction, d_model], of length 1
  at::Tensor logits;                ///< [direction, vocab]
  std::vector<SingularTokens> top;  ///< one per direction
};

/// Reads singular vectors of a head's circuits or an MLP's matrices through the unembedding (Millidge and
/// Black 2022). The sign of a singular vector is arbitrary: here its largest logit by size is positive. With
/// CircuitOptions::norms the final norm's weight and centring are part of the reading; without, logits are
/// TransformerLens's (SVDInterpreter), up to that sign.
///
/// Throws what the matrices throw (ov_circuits, qk_circuits, stream_matrix); HookError if logits are not read
/// by a matrix; ShapeError for less than one direction or token.
SingularDirections singular_directions(const HookedTransformer& model, const SingularOptions& options);

/// One line per direction: value, subspace, tokens.
std::ostream& operator<<(std::ostream& out, const SingularDirections& directions);

}  // namespace hooked
