#pragma once

#include <cstdint>
#include <vector>

#include "hooked/analysis/circuits.h"
#include "hooked/analysis/factored_matrix.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/head_place.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// One end of a full circuit.
enum class CircuitEnd : std::uint8_t {
  token,     ///< W_E: one place per token of the vocabulary
  position,  ///< W_pos: one place per position, for models with learned or shortformer positions
};

/// Which full QK circuit. For designated initialisers.
struct FullQkOptions {
  CircuitEnd query = CircuitEnd::token;  ///< the query's input
  CircuitEnd key = CircuitEnd::token;    ///< the key's input
  /// Position of the query minus that of the key. It rotates rotary circuits and is ignored otherwise.
  /// Negative if the key comes after the query.
  std::int64_t distance = 0;
  /// Tokens of the row, which matters if rotary angles depend on it; 0: the row is just as long as the
  /// distance.
  std::int64_t row_length = 0;
  CircuitOptions circuits = {};  ///< which weights
};

/// The row length and weights of qk_circuits_at. For designated initialisers.
struct QkAtOptions {
  std::int64_t row_length = 0;   ///< as in FullQkOptions
  CircuitOptions circuits = {};  ///< which weights
};

/// How a head scores tokens (or positions) against tokens (or positions) as the embeddings put them into the
/// stream: E_query W_Q W_K^T E_key^T, [vocab or pos, vocab or pos], kept as factors. (Elhage et al. 2021.)
///
/// The four combinations of ends in a model with learned positions add up to its score: their sum, divided by
/// the product of the norms' scales for query and key and by the scores' scale, is what the embeddings
/// contribute to a score before biases, cap and mask. Shortformer positions reach queries and keys without
/// passing the norm, so their end has neither its weight nor its scale. Tokens have passed the embeddings'
/// scales and norms, with the scale of a norm over sums (BERT's) held at 1.
///
/// Throws as qk_circuits for only this layer; HookError for `position` without W_pos, and if norms on the
/// stream itself come before the layer; ShapeError for a head that does not exist and for a distance as long
/// as the context.
FactoredMatrix full_qk_circuit(const HookedTransformer& model, const HeadPlace& head,
                               const FullQkOptions& options = {});

/// How seeing a token (or a position) changes the logits of all tokens through a head: E W_V W_O W_U, [vocab
/// or pos, vocab], in logits before any norm's scale and soft cap. Throws as ov_circuits; HookError for
/// `position` if W_pos is not in the stream, for models whose logits are not read by a matrix, and if norms
/// are on the stream itself.
FactoredMatrix full_ov_circuit(const HookedTransformer& model, const HeadPlace& head,
                               CircuitEnd from = CircuitEnd::token, const CircuitOptions& options = {});

/// The QK circuit of one head at some distances of query and key, [distance, d_model, d_model]: that of
/// qk_circuits, rotated if the layer rotates queries and keys. The rotation is taken from the model itself.
/// Throws as full_qk_circuit, and ShapeError for a head that does not exist and for distances and rows longer
/// than the context.
FactoredMatrix qk_circuits_at(const HookedTransformer& model, const HeadPlace& head,
                              const std::vector<std::int64_t>& distances, const QkAtOptions& options = {});

/// Which distances position_biases shows. For designated initialisers.
struct PositionBiasOptions {
  std::int64_t reach = 32;    ///< the largest distance; also negative ones, if attention goes both ways
  Stack stack = Stack::none;  ///< on an encoder-decoder: the decoder's heads, or the encoder's
  std::int64_t layer = 0;     ///< whose heads, which matters if each block has its own numbers
};

/// What heads add to every score depending on the distance of query and key, after scale and cap: a Grid
/// [head, distance], where a distance is the query's position minus the key's. For ALiBi its slopes, for
/// relative positions the table that all layers of a stack share (T5) or the layer's own (UMT5). The numbers
/// are those that the model itself adds to queries of zeros. Throws HookError for models whose scores have no
/// such bias, ShapeError for a layer that does not exist and a reach below 0 or beyond the context.
Grid position_biases(const HookedTransformer& model, const PositionBiasOptions& options = {});

}  // namespace hooked
