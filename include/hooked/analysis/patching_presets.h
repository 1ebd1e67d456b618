#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// One site of a preset.
struct PresetPart {
  std::string_view label;  ///< on the axis `site`, if a preset has several
  Site site;               ///< what is patched
};

/// A named sweep, like TransformerLens's `get_act_patch_*`.
struct PatchingPreset {
  std::string_view name;              ///< `attn_head_out_by_pos`
  std::string_view also;              ///< another accepted spelling; empty: none
  std::span<const Axis> over;         ///< the grid's axes
  std::span<const PresetPart> parts;  ///< if several, on a first axis `site`
  std::string_view patches;           ///< what it patches, in words
};

/// All presets, in the order of TransformerLens's module `patching`.
std::span<const PatchingPreset> patching_presets() noexcept;

/// The preset of this name or other spelling. Throws HookError with the nearest name.
const PatchingPreset& patching_preset(std::string_view name);

/// A preset's sweep. `options` sets everything except `site` and `table`; `over` may restrict axes of the
/// preset to some places, and may name Axis::batch. If sites have different numbers of heads (keys and values
/// of grouped queries), the missing ones are NaN. Throws as sweep().
Grid sweep(const HookedTransformer& model, const PatchingPreset& preset, const SweepOptions& options);

/// The same with a report.
SweepReport sweep_report(const HookedTransformer& model, const PatchingPreset& preset,
                         const SweepOptions& options);

}  // namespace hooked
