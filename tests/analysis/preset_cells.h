#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hooked/analysis/patching_presets.h"

namespace hooked {

/// What a preset patches for the cell at `index` of its grid without rows: (site,) layer, and its other axes.
inline Address patched_at(const PatchingPreset& preset, const std::vector<std::int64_t>& index) {
  const bool several = preset.parts.size() > 1;
  const std::size_t first = several ? 1 : 0;
  const Site site = preset.parts[several ? static_cast<std::size_t>(index[0]) : 0].site;
  Address address = ActivationName{.site = site, .layer = static_cast<std::int32_t>(index[first])};
  for (std::size_t i = 1; i < preset.over.size(); ++i) address = address.at(preset.over[i], index[first + i]);
  return address;
}

/// Whether the model has every site of the preset in some layer.
inline bool fits(const PatchingPreset& preset, const HookedTransformer& model) {
  const auto& names = model.names();
  return std::all_of(preset.parts.begin(), preset.parts.end(), [&](const PresetPart& part) {
    return std::any_of(names.begin(), names.end(), [&](const auto& name) { return name.site == part.site; });
  });
}

}  // namespace hooked
