#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/sweep_progress.h"
#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// How far run_rows() got.
struct RowRuns {
  std::int64_t rows = 0;                ///< that were run
  std::int64_t all_rows = 0;            ///< of the input
  bool complete = true;                 ///< not ended by `watch`
  std::vector<std::string> notes = {};  ///< RunResult::notes, each once
};

/// When run_rows() asks whether the work continues. Between layers: also in the middle of a run, which may
/// take seconds; it is then given up, and there may be no row that is done.
enum class Asked : std::uint8_t { after_runs, between_layers };

/// Runs all rows of an input, a few neighbouring ones at a time: up to 1024 tokens, fewer if memory runs out,
/// and one row if there are edits, which may apply to single rows. Calls `use` with the rows and their run's
/// result; if memory runs out in it, again with fewer of the same rows. `watch` gets the number of rows that
/// are done, and may end the work; `asked` says when. Throws in the name of `where`.
RowRuns run_rows(const HookedTransformer& model, const Input& input, const RunOptions& options,
                 std::string_view where, const std::function<bool(const SweepProgress&)>& watch,
                 const std::function<void(const Input& some, const RunResult& result)>& use,
                 Asked asked = Asked::after_runs);

}  // namespace hooked
