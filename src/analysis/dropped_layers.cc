#include "analysis/dropped_layers.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "analysis/added_to_stream.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

/// Whether this is the stream itself, or lies outside the blocks.
bool is_on_stream(Site site, const ModelConfig& config) {
  if (row(site).scope != SiteScope::block) return true;
  switch (site) {
    case Site::resid_pre:
    case Site::resid_mid:
    case Site::resid_mid_cross:
    case Site::resid_sum:
    case Site::resid_post:
    case Site::normalized_resid_post:
      return true;
    case Site::ln1_scale:
    case Site::ln1_normalized:
    case Site::ln2_scale:
    case Site::ln2_normalized:
    case Site::ln3_scale:
    case Site::ln3_normalized:
      return config.norms_stream();
    default:
      return false;
  }
}

/// Whether all of a cell lies in a layer.
bool lies_in(const BlockPlace& layer, const Patch& cell, const ModelConfig& config) {
  return std::all_of(cell.begin(), cell.end(), [&](const PatchedBlock& block) {
    const ActivationName& name = block.place.name();
    return !is_on_stream(name.site, config) && name.stack == layer.stack && name.layer == layer.layer;
  });
}

}  // namespace

std::vector<BlockPlace> dropped_layers(const PointIndex& points) {
  std::vector<BlockPlace> layers;
  for (const ActivationName& name : points.names()) {
    if (name.site == Site::resid_pre) layers.push_back({name.stack, name.layer});
  }
  return layers;
}

std::vector<Hook> dropping(const BlockPlace& layer) {
  const auto added_there = [layer](const ActivationName& name) {
    return is_added_to_stream(name.site) && name.stack == layer.stack && name.layer == layer.layer;
  };
  return {Hook(
      Selection::matching(added_there), [](const at::Tensor& gradient) { return gradient * 0.0; },
      HookDirection::backward)};
}

double share_without(const BlockPlace& layer, const Patch& cell, const ModelConfig& config) {
  if (cell.empty() || lies_in(layer, cell, config)) return 0.0;
  const ActivationName& first = cell.front().place.name();
  const auto layers = static_cast<double>(config.n_layers + config.n_encoder_layers());
  return 1.0 / (lies_in({first.stack, first.layer}, cell, config) ? layers - 1 : layers);
}

}  // namespace hooked
