#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "hooked/engine/input.h"
#include "hooked/engine/run_options.h"
#include "hooks/watch.h"
#include "loading/loaded_model.h"

namespace hooked {

/// Whether a run can be recorded and replayed with other numbers.
struct RunKey {
  /// Everything that its kernels depend on but the numbers that it reads.
  std::string key;
  /// Why it cannot be recorded; empty where it can. Then there is no key.
  std::string refusal = {};
};

/// Of a run of `input`, which `given` became when it was checked.
RunKey run_key(const LoadedModel& model, const Input& given, const Input& input, const RunOptions& options,
               const Reach& reach, const RunExtent& extent, const WatchPlan& plan);

/// Why runs that are watched so cannot be recorded, whatever else they are; empty where they may be.
std::string refusal_of_points(const WatchPlan& plan);

/// The tensors whose numbers such a run reads: of a checked input, and its edits' values.
std::vector<at::Tensor> read_tensors(const Input& input, const RunOptions& options);

/// Puts others in their places, in the same order.
void put_tensors(const std::vector<at::Tensor>& tensors, Input& input, RunOptions& options);

}  // namespace hooked
