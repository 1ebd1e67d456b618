#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "analysis/stream/stream_path.h"

namespace hooked {

/// Whether the features of a dictionary are what a step of the stream shows or writes: the dictionary stands
/// at that point of the stream, at what the module adds, or at its heads or neurons.
bool has_features(const HookedTransformer& model, const StreamStep& step);

/// The stream at a step that shows it, as features, the error, the decoder's bias and what a skip connection
/// passes on; nothing if no dictionary stands there. Throws HookError for what the cache lacks.
std::optional<std::vector<Writing>> features_shown(const StreamStep& step, const RunReading& run);

/// What features write in a step.
struct FeaturesWritten {
  std::vector<Writing> parts;
  bool before_norms;  ///< the norms of the module's output (StreamStep::through) come after them
};

/// The same for a step that writes.
std::optional<FeaturesWritten> features_written(const StreamStep& write, const RunReading& run);

/// What goes on from an activation, [row, pos, ...] float64: the output of the dictionary that stands there,
/// as far as the cache has it, else the activation.
at::Tensor gone_on(const ActivationName& name, const RunReading& run);

}  // namespace hooked
