#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "hooked/analysis/circuits.h"
#include "hooked/analysis/factored_matrix.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// A kind of matrix between the stream and a part of the model.
enum class StreamMatrix : std::uint8_t {
  // Writers: rows are places of the part, columns of the stream.
  embedding,  ///< W_E, [vocab, d_model]
  positions,  ///< W_pos, [pos, d_model]
  head_out,   ///< W_O of a head, [d_head, d_model]
  mlp_out,    ///< W_out, [neuron, d_model]
  // Readers: rows are places of the stream, columns of the part.
  query,        ///< W_Q of a head, [d_model, d_head]
  key,          ///< W_K of a head, [d_model, d_head]
  value,        ///< W_V of a head, [d_model, d_head]
  mlp_in,       ///< W_in, [d_model, neuron]
  mlp_gate,     ///< W_gate of a gated MLP, [d_model, neuron]
  unembedding,  ///< W_U, [d_model, vocab]
};

/// One of a model's matrices that write to the stream or read from it. For designated initialisers:
///
///     {.matrix = StreamMatrix::query, .layer = 1, .index = 3}
struct StreamPart {
  StreamMatrix matrix;     ///< which kind
  std::int64_t layer = 0;  ///< negative from the end; ignored for embeddings and the unembedding
  std::int64_t index = 0;  ///< the head, negative from the end, or the expert of a mixture

  bool writes() const { return matrix <= StreamMatrix::mlp_out; }  ///< or it reads
  std::string text() const;                                        ///< `query 1.3`, `mlp_in 0`, `embedding`
};

/// A part's matrix as it meets the stream, in the dtype of the weights. With CircuitOptions::norms it
/// includes the weights and the centring of the norm that it reads or writes through; tokens have passed the
/// embeddings' scales and norms, and the unembedding counts logits before any soft cap. Throws ConfigError if
/// the model has no such weight (latents, MLPs of attention-only models), HookError for clipped queries, keys
/// and values, for positions without W_pos, and for an unembedding after something that is not a matrix;
/// ShapeError for a layer or head that does not exist.
at::Tensor stream_matrix(const HookedTransformer& model, const StreamPart& part,
                         const CircuitOptions& options = {});

/// Virtual weights (Elhage et al. 2021): how `reader` reads what `writer` writes, wherever the two are in the
/// model, as the product of their matrices, kept as factors. To include what a head does with the stream,
/// multiply once more: matmul(W_V, virtual_weights(..)).
///
/// Throws as stream_matrix; ShapeError if the writer does not write, the reader does not read or comes before
/// the writer; HookError if there are norms on the stream itself between the two.
FactoredMatrix virtual_weights(const HookedTransformer& model, const StreamPart& writer,
                               const StreamPart& reader, const CircuitOptions& options = {});

/// |L R| / (|L| |R|) in Frobenius norms, at most 1: how much of what the left matrices write [.., m,
/// d] the right ones read [.., d, n]. Leading axes are broadcast; float64 in float64, else float32.
/// (TransformerLens's composition_scores.) For random orthogonal directions its mean square is 1 /
/// d.
at::Tensor composition(const FactoredMatrix& left, const FactoredMatrix& right);

/// How two subspaces of the stream overlap.
struct SubspaceOverlap {
  at::Tensor cosines;    ///< [angle]: of the principal angles, descending; as many as the smaller space has
                         ///< dimensions. 1: a direction in both spaces; 0: one orthogonal to the other space
  double overlap;        ///< the mean of their squares: the share of the smaller space that the larger holds
  double random;         ///< the same for random spaces of these sizes: the larger one's size / d_model
  std::int64_t written;  ///< dimensions of the written space
  std::int64_t read;     ///< dimensions of the read space
};

/// The principal angles between the span of the rows of `written` [n, d_model] and that of the columns of
/// `read` [d_model, m] (Björck and Golub 1973): how much of what is written to the stream, whatever its size,
/// is read. Directions whose singular value is below the rounding of the largest do not count. Throws
/// ShapeError for other shapes, and if only zeros are written or read.
SubspaceOverlap subspace_overlap(const at::Tensor& written, const at::Tensor& read);

/// The same of two parts of a model. Throws as virtual_weights.
SubspaceOverlap subspace_overlap(const HookedTransformer& model, const StreamPart& writer,
                                 const StreamPart& reader, const CircuitOptions& options = {});

}  // namespace hooked
