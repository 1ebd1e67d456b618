#pragma once

#include <cstdint>
#include <vector>

#include "analysis/places/row_columns.h"
#include "analysis/stream/stream_path.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/edit.h"

namespace hooked {

/// A head whose scores are taken apart: attention among the tokens of a stack, or to those of an encoder.
struct ScoredHead {
  ActivationName scores;  ///< full name of the point that shows them
  std::int64_t head;
  std::int64_t kv_head;  ///< whose keys it looks at

  bool crosses() const { return scores.site == Site::cross_attn_scores; }
};

/// The queries of a head, or its keys, split by what wrote the stream that they read. The model itself
/// computes the effect of each part, in runs in which the part replaces that stream and the norms after it
/// have the scales of the run.
class ScoreSide {
 public:
  enum class Of : std::uint8_t { queries, keys };

  /// All arguments outlive it.
  ScoreSide(const HookedTransformer& model, const ActivationCache& cache, const ScoredHead& scored, Of of);

  /// The columns of the run at some positions: an encoder's, or those of the stack that predicts.
  RowColumns columns(const std::vector<Position>& positions) const;

  /// The head's queries (keys) at such columns, [part, row, position, d_head]: for the parts of the stream,
  /// then `bias`, which is there without any stream, and `remainder`.
  Parts parts(const Split& split, const RowColumns& columns) const;

 private:
  /// The positions of streams in the runs that compute the effects.
  struct Layout {
    at::Tensor places;    // [row, position]
    std::int64_t length;  // of a row
    at::Tensor mask;      // [row, length], or undefined
  };

  /// The full name of a point of the head's block.
  ActivationName in_block(act::BlockSite site) const;
  /// Whether positions rotate or scale them.
  bool is_placed() const;
  /// Whether they pass through a norm.
  bool is_normed() const;
  /// The end of the stream that they are computed from.
  ActivationName stream() const;
  /// The last point that shows queries (keys) before they meet.
  ActivationName last_point() const;
  /// The scales of the norms between the stream and that point.
  std::vector<ActivationName> scales() const;

  const TokenColumns& tokens() const;
  Layout layout_of(const RowColumns& columns) const;
  /// One head of what the last point shows, [row, position, head, d_head], as it meets the other side.
  at::Tensor of_head(const at::Tensor& shown) const;
  /// The result that the model computes from streams [part, row, position, d_model] at the columns.
  at::Tensor made_of(const at::Tensor& streams, const RowColumns& columns) const;
  /// What the last point shows in a run of rows whose stream is `streams` [row, length, d_model].
  at::Tensor shown_of(const at::Tensor& streams, const at::Tensor& mask, Edits held) const;

  HookedTransformer model_;  // without the hooks of the handle
  const ActivationCache& cache_;
  const ModelConfig& config_;
  const ScoredHead& scored_;
  bool of_queries_;
  const std::int32_t layer_;
  ActivationName stream_, shown_;
};

}  // namespace hooked
