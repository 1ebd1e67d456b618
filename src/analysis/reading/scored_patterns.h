#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "hooked/analysis/heads.h"

namespace hooked {

/// Some neighbouring queries.
struct QueryRange {
  std::int64_t begin, end;

  /// Their positions, int64 [query, 1].
  at::Tensor places() const;
};

/// Throws HookError in the name of `where` for a run that went on from a prefix.
void require_no_prefix(const std::optional<TokenColumns>& columns, std::string_view where);

/// The attention patterns of a run that heads are scored by, and which of their queries and keys count, some
/// queries at a time: for a long text nothing of size [query, key] is held whole. Masks are on the CPU.
struct ScoredPatterns {
  struct Layer {
    ActivationName name;  ///< its full name
    bool kept;            ///< whether the cache has it
  };

  /// Throws what head_scores() throws about the cache and the options, naming `where`.
  ScoredPatterns(const ActivationCache& cache, const HeadScoreOptions& options, std::string_view where);

  std::int64_t rows() const { return queries.size(0); }
  /// Bool [row, query, key]: both tokens are real, and the key is not excluded.
  at::Tensor counted(const QueryRange& some) const;
  /// Bool [row, query, key] for real tokens: the key is excluded. Undefined: none is.
  at::Tensor excluded(const QueryRange& some) const;
  /// int64 [1, key].
  at::Tensor key_places() const;
  /// Bool [row, key]: each row's first real token.
  at::Tensor first_keys() const;
  /// int64 [row, pos]: what the stack read, from `given`, or if that is undefined from the cache; -1 for
  /// padding, which no token equals. Throws ShapeError.
  at::Tensor tokens(const ActivationCache& cache, const at::Tensor& given) const;

  std::vector<Layer> layers;
  std::int64_t heads = 0;
  c10::Device device = at::kCPU;  ///< of the patterns
  at::ScalarType dtype = at::kFloat;
  bool crosses = false;  ///< queries and keys are from two texts
  at::Tensor queries;    ///< bool [row, query]: real tokens
  at::Tensor keys;       ///< bool [row, key]

 private:
  at::Tensor real(const QueryRange& some) const;  // bool [row, query, key]

  bool excludes_bos_, excludes_current_;
  std::string_view where_;
  Stack stack_;
};

/// Numerators and denominators of a score of heads, in one run, or in several runs with different rows.
struct HeadSums {
  std::vector<ActivationName> layers;  ///< the patterns' full names
  at::Tensor above, below;  ///< [layer, row, head] float64; `below` is NaN for a layer that was not kept
  /// Whether several rows have the quotient of their sums; else the mean of their quotients.
  bool pools_rows;
  /// Whether any query has a matching key; also true if the score does not look for keys by `share`.
  bool any_key;
  Grid::Description description;

  /// The scores of all heads. Throws ShapeError unless there is any key.
  Grid scores(HeadRows rows) const;
};

/// For each of these scores, all in one pass over the patterns. Scores that do not look for a pattern ignore
/// the measure. Throws what head_scores() throws.
std::vector<HeadSums> head_sums(const ActivationCache& cache, const std::vector<HeadScore>& scores,
                                const HeadScoreOptions& options);

}  // namespace hooked
