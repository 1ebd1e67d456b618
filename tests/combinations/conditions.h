#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/combinations/combination.h"
#include "tests/combinations/oracle.h"
#include "tests/combinations/points.h"

/// The building blocks of the rows of refusals.
namespace hooked::combinations {

using C = const Combination&;
using M = const ModelConfig&;

inline bool sweeps(C c) { return c.consumer == Consumer::sweep || c.consumer == Consumer::estimates; }

/// Whether the consumer scores runs.
inline bool scores_runs(C c) {
  return sweeps(c) || c.consumer == Consumer::gradients || c.consumer == Consumer::edges ||
         c.consumer == Consumer::circuits;
}

/// Whether the consumer reads one cache.
inline bool reads_a_cache(C c) {
  return c.consumer == Consumer::attribution || c.consumer == Consumer::lens ||
         c.consumer == Consumer::head_scores;
}

/// Whether the consumer reads by addresses.
inline bool reads_addresses(C c) {
  return c.consumer == Consumer::read || c.consumer == Consumer::edit || c.consumer == Consumer::file;
}

inline bool runs(C c) { return reads_addresses(c) || reads_a_cache(c); }

inline Site site_of(const Where& where) { return name_in(where, 0).site; }

inline std::vector<Change> all_changes(C c) {
  std::vector<Change> all = c.changes;
  all.insert(all.end(), c.generation.prompt_changes.begin(), c.generation.prompt_changes.end());
  all.insert(all.end(), c.generation.new_token_changes.begin(), c.generation.new_token_changes.end());
  return all;
}

inline bool any_change(C c, const std::function<bool(const Change&)>& holds) {
  return std::ranges::any_of(all_changes(c), holds);
}

/// Whether a column is padding in one of these rows.
inline bool padding_at(C c, std::int64_t column, const Places& rows = {}) {
  return std::ranges::any_of(resolved(rows, c.rows()), [&](std::int64_t row) {
    const std::int64_t length = c.lengths.at(static_cast<std::size_t>(row));
    if (c.less.split == Split::first_columns && column < c.less.first_columns[static_cast<std::size_t>(row)])
      return true;
    return c.side == reference::Padding::right ? column >= length : column < c.columns() - length;
  });
}

}  // namespace hooked::combinations
