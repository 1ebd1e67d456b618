#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// A score of attention heads by where they attend. The table `head_scores.inc` defines each one.
enum class HeadScore : std::uint8_t {
#define HOOKED_HEAD_SCORE(score, ...) score,
#include "hooked/core/head_scores.inc"
};

/// What a score is based on.
enum class HeadScoreKind : std::uint8_t {
  columns,  ///< keys at the columns that the row defines
  ids,      ///< keys selected by the token ids
  spread,   ///< how a query's attention is spread; no pattern is looked for
};

/// One row of the table of scores.
struct HeadScoreRow {
  HeadScore score;        ///< whose row this is
  std::string_view name;  ///< `previous_token`
  HeadScoreKind kind;     ///< what it is based on
  bool crosses;           ///< whether it is meaningful in cross-attention
  std::string_view unit;  ///< of the number; empty if it is the measure's
  std::string_view says;  ///< what the number means, in words
};

/// The table, in its own order.
std::span<const HeadScoreRow> head_score_rows() noexcept;

/// The row of a score.
const HeadScoreRow& head_score_row(HeadScore score) noexcept;
/// The row of a name. Throws HookError with the nearest name.
const HeadScoreRow& head_score_row(std::string_view name);

/// How attention is compared with the pattern that is looked for. The pattern gives each query and key a
/// weight: 1 or 0, or any number in a pattern of your own. Let a be the attention and w that pattern.
enum class HeadMeasure : std::uint8_t {
  /// Of the attention of the queries that have such a key (any w but 0), the share that goes to such keys:
  /// the sum of a w over the number of these queries. Attention to excluded keys counts as not given. NaN
  /// without such queries; for several rows, over all queries together.
  share,
  /// TransformerLens's "mul": the sum of a w over the sum of a, over all queries, so that queries without
  /// such a key count as misses. For several rows, the mean of theirs.
  mul,
  /// TransformerLens's "abs": 1 minus the sum of |a - w| over the number of queries, between -1 and 1. For
  /// several rows, the mean of theirs. (TransformerLens rounds it to three digits.)
  abs,
};

/// How the scores of a batch's rows are combined.
enum class HeadRows : std::uint8_t {
  mean,  ///< one score for all rows: a Grid [layer, head]
  each,  ///< each row's own: a Grid [row, layer, head], NaN if a row has no position to look from
};

/// Which heads are scored, and how. For designated initialisers.
struct HeadScoreOptions {
  /// int64 [batch, pos] or [pos], what the stack read, for scores based on ids. A cache from a run knows
  /// them; others need this or `hook_tokens` of that stack.
  at::Tensor tokens = {};
  HeadMeasure measure = HeadMeasure::share;  ///< for scores and patterns that are looked for
  bool exclude_bos = false;                  ///< ignore attention to each row's first real token
  bool exclude_current_token = false;        ///< ignore attention of a token to itself
  HeadRows rows = HeadRows::mean;            ///< over a batch
  act::BlockSite site = act::pattern;        ///< or act::cross_pattern: attention to the encoder
  Stack stack = Stack::none;                 ///< on an encoder-decoder: the decoder's heads, or the encoder's
};

/// Scores all heads by a table row: numbers with the axes given by HeadScoreOptions::rows, NaN for a layer
/// whose pattern is not in the cache. Needs patterns of all positions. Padding is ignored as query and as
/// key; the first token is each row's first real one.
///
/// `entropy` and `distance` are computed on the attention that is not excluded, renormalised, and averaged
/// over the queries that have any: with all digits that the patterns' dtype holds. Throws HookError if no
/// pattern was kept or only some positions, after a prefix, and for a score or an exclusion that has no
/// meaning there; ShapeError for tokens that are missing or not those of the cache, and with
/// HeadMeasure::share if no query has a key of the kind that is looked for.
Grid head_scores(const ActivationCache& cache, HeadScore score, const HeadScoreOptions& options = {});

/// The same for your own pattern, [query, key] or [row, query, key]. Throws as above, and ShapeError if the
/// shape differs from the cache's patterns.
Grid head_scores(const ActivationCache& cache, const at::Tensor& pattern,
                 const HeadScoreOptions& options = {});

}  // namespace hooked
