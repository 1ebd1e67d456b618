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

/// A score of attention heads by where they look. The table `head_scores.inc` says what each one is.
enum class HeadScore : std::uint8_t {
#define HOOKED_HEAD_SCORE(score, ...) score,
#include "hooked/core/head_scores.inc"
};

/// What a score looks at.
enum class HeadScoreKind : std::uint8_t {
  columns,  ///< keys that stand where the row says
  ids,      ///< keys that the ids of the tokens choose
  spread,   ///< how the attention of a query is spread, without a pattern that is looked for
};

/// One row of the table of scores.
struct HeadScoreRow {
  HeadScore score;        ///< whose row this is
  std::string_view name;  ///< `previous_token`
  HeadScoreKind kind;     ///< what it looks at
  bool crosses;           ///< whether it has a meaning in cross-attention
  std::string_view unit;  ///< of the number; empty where the measure has one
  std::string_view says;  ///< what the number is, in words
};

/// The table, in its own order.
std::span<const HeadScoreRow> head_score_rows() noexcept;

/// The row of a score.
const HeadScoreRow& head_score_row(HeadScore score) noexcept;
/// The row of a name. Throws HookError with the nearest name.
const HeadScoreRow& head_score_row(std::string_view name);

/// How attention is compared with the pattern that is looked for, which says of each query and key how much
/// of them counts: 1 or 0, or what a pattern of your own has. Let a be the attention, w that pattern.
enum class HeadMeasure : std::uint8_t {
  /// Of the attention of the queries that have such a key (any w but 0), how much goes to such keys: the sum
  /// of a w over the number of these queries. What a query gives to excluded keys is as if it were not given.
  /// NaN where there is no such query; of several rows all queries together.
  share,
  /// TransformerLens's "mul": the sum of a w over the sum of a, of all queries, so that queries without such
  /// a key count as misses. Of several rows the mean of theirs.
  mul,
  /// TransformerLens's "abs": 1 less the sum of |a - w| over the number of queries, between -1 and 1. Of
  /// several rows the mean of theirs. (TransformerLens rounds it to three digits.)
  abs,
};

/// What becomes of the scores of a batch's rows.
enum class HeadRows : std::uint8_t {
  mean,  ///< one score for all rows: a Grid [layer, head]
  each,  ///< each row's own: a Grid [row, layer, head], NaN where a row has no position to look from
};

/// Which heads are scored, and how. For designated initialisers.
struct HeadScoreOptions {
  /// int64 [batch, pos] or [pos], what the stack read, for scores that look for ids. A cache that a run made
  /// knows them; others need this or `hook_tokens` of that stack.
  at::Tensor tokens = {};
  HeadMeasure measure = HeadMeasure::share;  ///< of scores and patterns that are looked for
  bool exclude_bos = false;                  ///< attention to each row's first real token counts nowhere
  bool exclude_current_token = false;        ///< attention of a token to itself counts nowhere
  HeadRows rows = HeadRows::mean;            ///< over a batch
  act::BlockSite site = act::pattern;        ///< or act::cross_pattern: what heads see of the encoder
  Stack stack = Stack::none;                 ///< on an encoder-decoder: the decoder's heads, or the encoder's
};

/// Scores all heads by a table row: numbers with the axes that HeadScoreOptions::rows says, NaN for a layer
/// whose pattern is not in the cache. Needs patterns of all positions. Padding is neither looked from nor at,
/// and counts in no number; the first token is each row's first real one.
///
/// `entropy` and `distance` are of the attention that is not excluded, as shares of it, meant over the
/// queries that have any: as much as the patterns' dtype holds with all digits. Throws HookError where no
/// pattern was kept or only some positions, behind a prefix, and for a score or an exclusion that has no
/// meaning there; ShapeError for tokens that are missing or not those of the cache, and by
/// HeadMeasure::share where no query has a key of the kind that is looked for.
Grid head_scores(const ActivationCache& cache, HeadScore score, const HeadScoreOptions& options = {});

/// The same for a pattern of your own, [query, key] or [row, query, key]. Throws as above, and ShapeError for
/// a pattern of another shape than the cache's.
Grid head_scores(const ActivationCache& cache, const at::Tensor& pattern,
                 const HeadScoreOptions& options = {});

}  // namespace hooked
