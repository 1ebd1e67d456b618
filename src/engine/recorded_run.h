#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/planned_run.h"
#include "hooked/engine/input.h"
#include "hooked/engine/run_options.h"
#include "hooks/watch.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Whether a run can be recorded and replayed with other numbers.
struct RunKey {
  /// Everything that its kernels depend on but the numbers that it reads.
  std::string key;
  /// Why it cannot be recorded; empty where it can. Then there is no key.
  std::string refusal = {};
  /// Where its edits apply, which it reads as numbers.
  std::vector<std::int64_t> places = {};
};

/// Of a run of what `given` became when it was checked.
RunKey run_key(const PlannedRun& planned, const Input& given);

/// Why steps of a generation are not recorded, where one column is computed behind others and that is done
/// at the points; empty where they may be.
std::string refusal_of_steps(const WatchPlan& plan);

/// Why runs that are watched so cannot be recorded, whatever else they are; empty where they may be.
std::string refusal_of_points(const WatchPlan& plan);

/// Of a step that computes one column of `rows` in that room.
std::string step_key(const LoadedModel& model, const RunExtent& extent,
                     const std::shared_ptr<const WatchPlan>& plan, const KeyRoom& room);

/// The tensors whose numbers such a run reads: of a checked input, its edits' values, what a loss compares
/// with, edits' places, and behind these a prefix, into which nobody writes.
struct RunTensors {
  /// Of such a run; `places` are those of its key.
  RunTensors(const LoadedModel& model, const Input& input, const RunOptions& options,
             const std::vector<std::int64_t>& places);

  std::vector<at::Tensor> all;
  std::size_t frozen = 0;  ///< how many of the last belong to the prefix
  bool places = false;     ///< whether there are places, before these

  bool logit_tokens = false;  ///< whether there are those of the options, before the places

  /// Numbers that a recording reads where a run reads them from its options, undefined without.
  struct Numbers {
    at::Tensor edit_places, logit_tokens;
  };
  /// Puts others into the input and the edits, which are in the same order, and gives back the numbers.
  Numbers put(const std::vector<at::Tensor>& tensors, Input& input, RunOptions& options) const;
};

/// Whether work is given the tensors that it was asked for with, and not others in their place.
bool are_the_same(const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& asked);

/// The values of edits that are tensors, in order.
std::vector<at::Tensor> edit_tensors(const RunOptions& options);
/// Puts others in their places, from `tensors[first]` on.
void put_edit_tensors(const std::vector<at::Tensor>& tensors, std::size_t first, RunOptions& options);

}  // namespace hooked
