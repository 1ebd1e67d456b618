#include "analysis/gradients/dropped_layers.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "hooks/norm_points.h"
#include "hooks/stream.h"

namespace hooked {

DroppedLayers::DroppedLayers(const ModelConfig& config) : layers_(config.blocks()) {
  for (const Stack stack : stacks_of(config)) {
    for (const StreamStep& step : stream_of(config, stack)) {
      if (step.by_sublayer()) added_[step.block()] = added_[step.block()] | Selection(step.point);
      if (step.kind == StreamStep::Kind::read || step.kind == StreamStep::Kind::write) continue;
      on_stream_.insert(step.point);
      if (step.kind == StreamStep::Kind::norm) on_stream_.insert(scale_of(step.point));
    }
  }
}

std::vector<Hook> DroppedLayers::dropping(const BlockPlace& layer) const {
  return {Hook(
      added_.at(layer), [](const at::Tensor& gradient) { return gradient * 0.0; }, HookDirection::backward)};
}

bool DroppedLayers::lies_in(const BlockPlace& layer, const Patch& cell) const {
  return std::all_of(cell.begin(), cell.end(), [&](const PatchedBlock& block) {
    const ActivationName& name = block.place.name();
    return row(name.site).scope == SiteScope::block && !on_stream_.contains(name) &&
           name.stack == layer.stack && name.layer == layer.layer;
  });
}

double DroppedLayers::share_without(const BlockPlace& layer, const Patch& cell) const {
  if (cell.empty() || lies_in(layer, cell)) return 0.0;
  const ActivationName& first = cell.front().place.name();
  const auto layers = static_cast<double>(layers_.size());
  return 1.0 / (lies_in({first.stack, first.layer}, cell) ? layers - 1 : layers);
}

}  // namespace hooked
