#include "hooked/analysis/patching_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "analysis/patching/cell_plan.h"
#include "analysis/patching/sweep_grid.h"
#include "core/nearest.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

template <Axis... kAxis>
constexpr std::array kAxes{kAxis...};

template <Site kSite>
constexpr std::array kOnly{PresetPart{"", kSite}};
constexpr std::array kEveryHead{PresetPart{"z", Site::z}, PresetPart{"q", Site::q}, PresetPart{"k", Site::k},
                                PresetPart{"v", Site::v}, PresetPart{"pattern", Site::pattern}};
constexpr std::array kEveryBlock{PresetPart{"resid_pre", Site::resid_pre},
                                 PresetPart{"attn_out", Site::attn_out},
                                 PresetPart{"mlp_out", Site::mlp_out}};

namespace preset_table {

using enum Axis;

#define HOOKED_AXES(...) kAxes<__VA_ARGS__>
#define HOOKED_PRESET(name, also, over, sites, patches) PatchingPreset{name, also, over, sites, patches},
constexpr std::array kPresets{
#include "core/patching_presets.inc"
};

}  // namespace preset_table

/// The preset's axes, restricted to the places that the caller named.
std::vector<SweptAxis> axes_of(const PatchingPreset& preset, const SweepOptions& options) {
  std::vector<SweptAxis> over(preset.over.begin(), preset.over.end());
  for (const SweptAxis& given : options.over) {
    const auto own = std::find_if(over.begin(), over.end(),
                                  [&](const SweptAxis& axis) { return axis.axis == given.axis; });
    if (own != over.end()) {
      if (!own->places.empty()) {
        throw HookError(preset.name,
                        fmt::format("{} occurs twice in `over`; expected it once", axis_name(given.axis)));
      }
      *own = given;
    } else if (given.axis != Axis::batch) {
      throw HookError(preset.name, fmt::format("the preset has no axis {} that could be narrowed; expected "
                                               "batch or one of its own",
                                               axis_name(given.axis)));
    }
  }
  return over;
}

/// `options` without what the preset's plan already says: the rows' place is given among its axes.
SweepOptions rows_alone(SweepOptions options) {
  std::erase_if(options.over, [](const SweptAxis& axis) { return axis.axis != Axis::batch; });
  return options;
}

SweepReport report_of(const HookedTransformer& model, const PatchingPreset& preset,
                      const SweepOptions& options, OnFailure on_failure) {
  const SweepInput into(model, options.into);
  return swept(model, rows_alone(options), into, plan_of_preset(model, preset, options, into), on_failure);
}

}  // namespace

CellPlan plan_of_preset(const HookedTransformer& model, const PatchingPreset& preset,
                        const SweepOptions& options, const SweepInput& into) {
  if (options.site || !options.table.empty()) {
    throw HookError(preset.name, "a preset says what is patched; expected neither `site` nor `table`");
  }
  std::vector<CellPlan> plans;
  std::vector<std::string> labels;
  const bool several = preset.parts.size() > 1;
  for (const PresetPart& part : preset.parts) {
    SweepOptions own = options;
    own.site = act::BlockSite{part.site};
    own.over = axes_of(preset, options);
    plans.push_back(make_plan(model, own, into, several ? model.config().n_heads : 0));
    labels.emplace_back(part.label);
  }
  CellPlan plan = several ? stacked(std::move(plans), "site", labels) : std::move(plans.front());
  plan.title = fmt::format("Patching {}", preset.name);
  return plan;
}

std::span<const PatchingPreset> patching_presets() noexcept { return preset_table::kPresets; }

const PatchingPreset& patching_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const PatchingPreset& preset : patching_presets()) {
    if (preset.name == name || (!preset.also.empty() && preset.also == name)) return preset;
    names.emplace_back(preset.name);
  }
  throw HookError(name, fmt::format("there is no preset of this name; the nearest is {}; expected one of {}",
                                    nearest(name, names), fmt::join(names, ", ")));
}

Grid sweep(const HookedTransformer& model, const PatchingPreset& preset, const SweepOptions& options) {
  return report_of(model, preset, options, OnFailure::throws).grid;
}

SweepReport sweep_report(const HookedTransformer& model, const PatchingPreset& preset,
                         const SweepOptions& options) {
  return report_of(model, preset, options, OnFailure::is_listed);
}

}  // namespace hooked
