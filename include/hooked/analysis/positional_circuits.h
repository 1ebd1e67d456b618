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

/// What stands at one end of a full circuit.
enum class CircuitEnd : std::uint8_t {
  token,     ///< W_E: a place per token of the vocabulary
  position,  ///< W_pos: a place per position, of models with learned or shortformer positions
};

/// Which full QK circuit. For designated initialisers.
struct FullQkOptions {
  CircuitEnd query = CircuitEnd::token;  ///< what the query is made of
  CircuitEnd key = CircuitEnd::token;    ///< what the key is made of
  /// Position of the query less that of the key, which turns rotary circuits and counts nowhere else.
  /// Negative where a key stands behind the query.
  std::int64_t distance = 0;
  /// Tokens of the row, which count where rotary angles depend on them; 0: it is just as long as the
  /// distance.
  std::int64_t row_length = 0;
  CircuitOptions circuits = {};  ///< of which weights
};

/// Of which rows qk_circuits_at is. For designated initialisers.
struct QkAtOptions {
  std::int64_t row_length = 0;   ///< as FullQkOptions has it
  CircuitOptions circuits = {};  ///< of which weights
};

/// How a head scores tokens (or positions) by tokens (or positions) as the embeddings put them into the
/// stream: E_query W_Q W_K^T E_key^T, [vocab or pos, vocab or pos], kept as factors. (Elhage et al. 2021.)
///
/// The four kinds of ends of a model with learned positions add up to its score: their sum, over the product
/// of the scales that the norms have for query and key and over the scores' scale, is what the embeddings
/// give to a score before biases, cap and mask. Shortformer positions reach queries and keys beside the norm,
/// so their end has neither its weight nor its scale. Tokens are as embeddings' scales and norms leave them,
/// with the scale of a norm over sums (BERT's) held at 1.
///
/// Throws as qk_circuits of the layer alone; HookError for `position` where there is no W_pos, and where
/// norms on the stream itself stand before the layer; ShapeError for a head that is not there and for a
/// distance as long as the context.
FactoredMatrix full_qk_circuit(const HookedTransformer& model, const HeadPlace& head,
                               const FullQkOptions& options = {});

/// What seeing a token (or a position) does to the logits of all tokens through a head: E W_V W_O W_U,
/// [vocab or pos, vocab], in logits before any norm's scale and soft cap. Throws as ov_circuits; HookError
/// for `position` where W_pos is not in the stream, for models whose logits no matrix reads, and where norms
/// stand on the stream itself.
FactoredMatrix full_ov_circuit(const HookedTransformer& model, const HeadPlace& head,
                               CircuitEnd from = CircuitEnd::token, const CircuitOptions& options = {});

/// The QK circuit of one head at some distances of query and key, [distance, d_model, d_model]: that of
/// qk_circuits, turned where the layer's queries and keys are. The model itself says what a distance turns.
/// Throws as full_qk_circuit, and ShapeError for a head that is not there and for distances and rows longer
/// than the context.
FactoredMatrix qk_circuits_at(const HookedTransformer& model, const HeadPlace& head,
                              const std::vector<std::int64_t>& distances, const QkAtOptions& options = {});

/// Which distances position_biases shows. For designated initialisers.
struct PositionBiasOptions {
  std::int64_t reach = 32;    ///< the largest distance; negative ones, too, where attention goes both ways
  Stack stack = Stack::none;  ///< on an encoder-decoder: the decoder's heads, or the encoder's
  std::int64_t layer = 0;     ///< whose heads, which matters where each block has numbers of its own
};

/// What heads add to every score for the distance of query and key, after scale and cap: a Grid [head,
/// distance], where a distance is the query's position less the key's. Of ALiBi its slopes, of relative
/// positions the table that all layers of a stack share (T5) or the layer's own (UMT5). The model itself says
/// it, of queries that are zero. Throws HookError for models whose scores have no such bias, ShapeError for a
/// layer that is not there and a reach below 0 or beyond the context.
Grid position_biases(const HookedTransformer& model, const PositionBiasOptions& options = {});

}  // namespace hooked
