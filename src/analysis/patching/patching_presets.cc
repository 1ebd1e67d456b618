#include "hooked/analysis/patching_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "analysis/patching/cell_plan.h"
#include "analysis/patching/sweep_grid.h"
#include "analysis/values/row_major.h"
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

/// The number of a cell of a smaller plan among the cells of larger axes.
std::int64_t moved(std::int64_t cell, const std::vector<GridAxis>& small,
                   const std::vector<GridAxis>& large) {
  std::int64_t number = 0;
  const std::vector<std::int64_t> index = index_of(cell, small);
  for (std::size_t i = 0; i < large.size(); ++i) number = number * places_on(large[i]) + index[i];
  return number;
}

/// Several plans as places, with these labels, of a new first axis `name`. The plans' axes have the same
/// names; shorter ones are filled up with cells that have no number.
CellPlan stacked(std::vector<CellPlan> plans, const std::string& name,
                 const std::vector<std::string>& labels) {
  CellPlan all{.axes = plans.front().axes};
  std::vector<std::function<void(SweptRow)>> checks;
  for (const CellPlan& plan : plans) checks.push_back(plan.check);
  all.check = [checks](SweptRow row) {
    for (const auto& check : checks) check(row);
  };
  for (const CellPlan& plan : plans) {
    for (std::size_t i = 0; i < all.axes.size(); ++i) {
      if (places_on(plan.axes[i]) > places_on(all.axes[i])) all.axes[i] = plan.axes[i];
    }
  }
  for (GridAxis& axis : all.axes) axis.places.clear();  // they are of one plan's site
  const std::int64_t cells = all.cells();
  std::vector<std::string> records;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const std::int64_t before = static_cast<std::int64_t>(p) * cells;
    const std::vector<GridAxis> own = plans[p].axes;
    const auto add_names = [](const std::vector<ActivationName>& names, std::vector<ActivationName>& to) {
      for (const ActivationName& name : names) {
        if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
      }
    };
    add_names(plans[p].patched, all.patched);
    add_names(plans[p].read, all.read);
    records.push_back(plans[p].record);
    for (CellGroup& group : plans[p].groups) {
      const auto number = [before, own, large = all.axes](std::int64_t cell) {
        return before + moved(cell, own, large);
      };
      all.groups.push_back(renumbered(std::move(group), number));
    }
  }
  all.axes.insert(all.axes.begin(), {.name = name, .labels = labels});
  all.record = fmt::format("{}", fmt::join(records, "; "));
  return all;
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
  throw HookError(name,
                  fmt::format("there is no preset of this name{}; expected one of {}",
                              nearest_text("; the nearest is {}", name, names), fmt::join(names, ", ")));
}

Grid sweep(const HookedTransformer& model, const PatchingPreset& preset, const SweepOptions& options) {
  return report_of(model, preset, options, OnFailure::throws).grid;
}

SweepReport sweep_report(const HookedTransformer& model, const PatchingPreset& preset,
                         const SweepOptions& options) {
  return report_of(model, preset, options, OnFailure::is_listed);
}

}  // namespace hooked
