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
  /// Everything that its kernels depend on except the numbers that it reads.
  std::string key;
  /// Why it cannot be recorded (the key is then empty); empty if it can.
  std::string refusal = {};
  /// Where its edits apply, which it reads as numbers.
  std::vector<std::int64_t> places = {};
};

/// The key of a checked run; `given` is its input before the checks.
RunKey run_key(const PlannedRun& planned, const Input& given);

/// Why steps of a generation that compute one column after the existing ones are not recorded, because of
/// what is done at the points; empty if they may be.
std::string refusal_of_steps(const WatchPlan& plan);

/// Why runs with these points watched cannot be recorded, whatever else they are; empty if they can.
std::string refusal_of_points(const WatchPlan& plan);

/// The key of a step that computes one column of `rows` in that room.
std::string step_key(const LoadedModel& model, const RunExtent& extent,
                     const std::shared_ptr<const WatchPlan>& plan, const KeyRoom& room);

/// The tensors whose numbers such a run reads: those of a checked input, its edits' values, what a loss
/// compares with, edits' places, and after these a prefix, into which nobody writes.
struct RunTensors {
  /// For such a run; `places` are those of its key.
  RunTensors(const LoadedModel& model, const Input& input, const RunOptions& options,
             const std::vector<std::int64_t>& places);

  std::vector<at::Tensor> all;
  std::size_t frozen = 0;  ///< how many of the last tensors belong to the prefix
  bool places = false;     ///< whether there are places, before these

  bool logit_tokens = false;  ///< whether those of the options are there, before the places

  /// Numbers that a recording reads instead of those in a run's options; undefined if there are none.
  struct Numbers {
    at::Tensor edit_places, logit_tokens;
  };
  /// Replaces the tensors in the input and the edits, in the same order, and returns the numbers.
  Numbers put(const std::vector<at::Tensor>& tensors, Input& input, RunOptions& options) const;
};

/// Whether work gets the same tensors that it was requested with, and not replacements.
bool are_the_same(const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& asked);

/// The edits' values that are tensors, in order.
std::vector<at::Tensor> edit_tensors(const RunOptions& options);
/// Replaces them, from `tensors[first]` on.
void put_edit_tensors(const std::vector<at::Tensor>& tensors, std::size_t first, RunOptions& options);

}  // namespace hooked
