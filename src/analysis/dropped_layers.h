#pragma once

#include <vector>

#include "analysis/patched_runs.h"
#include "hooked/core/block_place.h"
#include "hooked/core/model_config.h"
#include "hooked/hooks/hook.h"

namespace hooked {

/// The layers of a model, of both stacks where there are two: for each there is a gradient in which what it
/// adds to the stream passes none (AtP*, "GradDrop").
std::vector<BlockPlace> dropped_layers(const PointIndex& points);

/// Hooks that let no gradient through what a layer adds to the stream.
std::vector<Hook> dropping(const BlockPlace& layer);

/// By how much a cell's estimate without that layer counts in the mean: not at all where all of it lies in
/// the layer, so that the mean is over the other layers; the stream lies in no layer, and its mean is over
/// all.
double share_without(const BlockPlace& layer, const Patch& cell, const ModelConfig& config);

}  // namespace hooked
