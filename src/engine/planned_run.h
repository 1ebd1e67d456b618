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

/// A run that was checked: what it reads and what it computes.
struct PlannedRun {
  const LoadedModel& model;
  const RunOptions& options;
  Input input;         ///< as the graph computes from it
  at::Tensor targets;  ///< ids [batch, pos] for a loss
  Reach reach;
  RunExtent extent;
  std::vector<std::int64_t> metric_columns;  ///< whose logits a metric of logits declares to read
  std::shared_ptr<const WatchPlan> plan;

  /// Whether the run itself makes a loss. (Beside gradients a metric reads the logits, and the loss is made
  /// of these.)
  bool makes_loss() const { return options.output == Output::loss && !options.gradients; }
};

/// Checks all that is asked for. Throws ShapeError, HookError and TokenizerError before anything is computed.
PlannedRun plan_run(const LoadedModel& model, const Input& given, const RunOptions& options,
                    const std::vector<Hook>& attached);

/// The extent with what it has of the numbers of an input: masks, and rows that begin at columns of their
/// own.
RunExtent with_numbers_of(const LoadedModel& model, const Input& input, RunExtent extent);

}  // namespace hooked
