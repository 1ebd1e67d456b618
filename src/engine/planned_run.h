#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "hooked/engine/input.h"
#include "hooked/engine/run_options.h"
#include "hooks/watch.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// A checked run: what it reads and what it computes.
struct PlannedRun {
  const LoadedModel& model;
  const RunOptions& options;
  Input input;         ///< as the graph computes from it
  at::Tensor targets;  ///< ids [batch, pos] for a loss
  Reach reach;
  RunExtent extent;
  std::vector<std::int64_t> metric_columns;  ///< whose logits a metric of logits declares to read
  std::shared_ptr<const WatchPlan> plan;

  /// Whether the run itself computes a loss. (With gradients, a metric reads the logits, and the loss is
  /// computed from these.)
  bool makes_loss() const { return options.output == Output::loss && !options.gradients; }
};

/// Checks everything that is asked for. Throws ShapeError, HookError and TokenizerError before it computes.
PlannedRun plan_run(const LoadedModel& model, const Input& given, const RunOptions& options,
                    const Hooks& attached);

/// The extent, completed with what depends on the numbers of an input: masks, and rows with different first
/// columns.
RunExtent with_numbers_of(const LoadedModel& model, const Input& input, RunExtent extent);

/// Everything that `options` and the handle's `scoped` hooks watch in runs of that part of the model. Throws
/// HookError for points that this model or this part does not have.
std::shared_ptr<const WatchPlan> make_plan(const LoadedModel& model, const Reach& reach, const Hooks& scoped,
                                           const RunOptions& options);

}  // namespace hooked
