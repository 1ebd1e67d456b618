#pragma once

#include <functional>
#include <vector>

#include "analysis/runs/patched_runs.h"

namespace hooked {

/// A device that computes patched runs of one row. Used by one thread at a time.
struct RunPlace {
  c10::Device device;
  /// PatchedRuns::run, with the result on the device of the model that is swept.
  std::function<RunResult(const std::vector<Patch>& patches, const PatchedRuns::Batch& batch)> run;
};

/// The model's own device, then those of its `replicas`. What the runs of a replica begin from is computed
/// there when its first run is asked for. `home` has the runs of `model`, for that input, patched activations
/// and options; it must outlive the places. Throws HookError for a replica of another model.
std::vector<RunPlace> run_places(const PatchedRuns& home, const HookedTransformer& model,
                                 const std::vector<HookedTransformer>& replicas, const Input& input,
                                 const std::vector<ActivationName>& patched,
                                 const PatchedRuns::Options& options);

/// Calls `work(number, place)` for the numbers from 0 to `count`. Several places have a thread each. With one
/// place, calls are parallel on LibTorch's threads if `beside` allows it, else one after another.
void for_each_run(std::int64_t count, const std::vector<RunPlace>& places, bool beside,
                  const std::function<void(std::int64_t, const RunPlace&)>& work);

}  // namespace hooked
