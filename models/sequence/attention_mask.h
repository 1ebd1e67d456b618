#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>

namespace hooked {

/// The score of a key that may not be attended to.
inline constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// The numbers in [`first`, `end`).
struct Span {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t size() const noexcept { return end - first; }
};

/// That part of `x` along an axis, as a view.
at::Tensor cut(const at::Tensor& x, std::int64_t axis, const Span& span);

/// A tile of the scores: those of some queries and keys, rows and heads. Keys are counted from the first
/// column that the queries may see, queries from the run's own first column.
struct ScoreTile {
  Span rows, heads, queries, keys;
};

/// Which keys each query may see: columns in [`first`, `end`) that are not padding.
struct VisibleKeys {
  at::Tensor first, end;  ///< [1 or batch, query] int64, contiguous
  at::Tensor real;        ///< [batch, key] bool, contiguous; undefined: no key is padding
};

/// What is added to scores depending on the places of query and key. If only their distance counts, each head
/// has one row of numbers, and each query adds a stretch of it.
struct ScoreBias {
  at::Tensor values;  ///< [1 or batch, head, number], contiguous; undefined: nothing is added
  at::Tensor starts;  ///< [1 or batch, query] int64: key k gets number starts[query] + k
  at::Tensor whole;   ///< [1 or batch, head, query, key] if the bias was computed like that, else undefined

  /// From a bias [1 or batch, head, query, key].
  static ScoreBias of(const at::Tensor& bias);
  bool defined() const { return values.defined(); }
};

/// Which keys each query may attend to, and what is added to scores by distance. Both are stored by query and
/// by key, and become masks of [query, key] if somebody reads these; masks of all scores are kept for other
/// layers that share them. Belongs to one run, and so to one thread, except for what is made from a tile.
class AttentionMask {
 public:
  /// Sizes of the scores.
  struct Sizes {
    std::int64_t queries = 0;
    std::int64_t keys = 0;
  };

  /// Forbids nothing.
  AttentionMask() = default;
  /// `visible` with undefined `first`: all keys that are not padding.
  AttentionMask(Sizes sizes, VisibleKeys visible, ScoreBias bias);

  const VisibleKeys& visible() const noexcept { return visible_; }
  const ScoreBias& score_bias() const noexcept { return bias_; }
  /// Whether there is a query that may not see every key.
  bool forbids() const noexcept { return visible_.first.defined() || visible_.real.defined(); }
  /// A span of the `keys` that contains everything these queries of any row may see. Only for CPU tensors;
  /// elsewhere it is all of them.
  Span seen_by(const Span& queries, std::int64_t keys) const;

  /// The same for some of the queries, [query] int64.
  AttentionMask of_queries(const at::Tensor& queries) const;

  /// The same on another device; itself if it is there already.
  AttentionMask on(const c10::Device& device) const;

  /// [1 or rows, 1, query, key] bool for a tile, true where attention is forbidden; undefined: nowhere.
  at::Tensor blocked(const ScoreTile& tile) const;
  /// What is added to the scores of a tile, [1 or rows, heads, query, key]; undefined: nothing.
  at::Tensor bias(const ScoreTile& tile) const;

  /// The same for all scores, computed when first read.
  const at::Tensor& blocked() const;
  const at::Tensor& bias() const;
  /// Both in one, for kernels that add it: [1 or batch, 1 or head, query, key] of the scores' dtype, -inf
  /// where attention is forbidden; undefined if there is neither.
  const at::Tensor& summand(at::ScalarType dtype) const;
  /// The same for a tile.
  at::Tensor summand(const ScoreTile& tile, at::ScalarType dtype) const;

 private:
  ScoreTile everything() const;

  Sizes sizes_;
  VisibleKeys visible_;
  ScoreBias bias_;
  mutable at::Tensor all_blocked_, all_bias_, summand_;
};

}  // namespace hooked
