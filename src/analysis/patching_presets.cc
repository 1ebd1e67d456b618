#include "hooked/analysis/patching_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "analysis/sweep_grid.h"
#include "core/nearest.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::array kByPos{Axis::layer, Axis::pos};
constexpr std::array kByPosAndHead{Axis::layer, Axis::pos, Axis::head};
constexpr std::array kByHead{Axis::layer, Axis::head};
constexpr std::array kByHeadAndPos{Axis::layer, Axis::head, Axis::pos};
constexpr std::array kByHeadQueryAndKey{Axis::layer, Axis::head, Axis::query, Axis::key};

template <Site kSite>
constexpr std::array kOnly{PresetPart{"", kSite}};
constexpr std::array kEveryHead{PresetPart{"z", Site::z}, PresetPart{"q", Site::q}, PresetPart{"k", Site::k},
                                PresetPart{"v", Site::v}, PresetPart{"pattern", Site::pattern}};
constexpr std::array kEveryBlock{PresetPart{"resid_pre", Site::resid_pre},
                                 PresetPart{"attn_out", Site::attn_out},
                                 PresetPart{"mlp_out", Site::mlp_out}};

// The order of TransformerLens's module.
constexpr std::array kPresets{
    PatchingPreset{"resid_pre", "", kByPos, kOnly<Site::resid_pre>, "the stream before each block"},
    PatchingPreset{"resid_mid", "", kByPos, kOnly<Site::resid_mid>, "the stream between attention and MLP"},
    PatchingPreset{"attn_out", "", kByPos, kOnly<Site::attn_out>, "what attention adds to the stream"},
    PatchingPreset{"mlp_out", "", kByPos, kOnly<Site::mlp_out>, "what the MLP adds to the stream"},
    PatchingPreset{"attn_head_out_by_pos", "", kByPosAndHead, kOnly<Site::z>, "each head's output"},
    PatchingPreset{"attn_head_q_by_pos", "", kByPosAndHead, kOnly<Site::q>, "each head's queries"},
    PatchingPreset{"attn_head_k_by_pos", "", kByPosAndHead, kOnly<Site::k>, "each head's keys"},
    PatchingPreset{"attn_head_v_by_pos", "", kByPosAndHead, kOnly<Site::v>, "each head's values"},
    PatchingPreset{"attn_head_pattern_by_pos", "", kByHeadAndPos, kOnly<Site::pattern>,
                   "each head's attention from one query"},
    PatchingPreset{"attn_head_pattern_dest_src_pos", "", kByHeadQueryAndKey, kOnly<Site::pattern>,
                   "each head's attention from one query to one key"},
    PatchingPreset{"attn_head_out_all_pos", "", kByHead, kOnly<Site::z>,
                   "each head's output, at all positions"},
    PatchingPreset{"attn_head_q_all_pos", "", kByHead, kOnly<Site::q>,
                   "each head's queries, at all positions"},
    PatchingPreset{"attn_head_k_all_pos", "", kByHead, kOnly<Site::k>, "each head's keys, at all positions"},
    PatchingPreset{"attn_head_v_all_pos", "", kByHead, kOnly<Site::v>,
                   "each head's values, at all positions"},
    PatchingPreset{"attn_head_pattern_all_pos", "", kByHead, kOnly<Site::pattern>,
                   "each head's whole attention pattern"},
    PatchingPreset{"attn_head_all_pos_every", "head_all_pos_every", kByHead, kEveryHead,
                   "output, queries, keys, values and pattern of each head"},
    PatchingPreset{"attn_head_by_pos_every", "head_by_pos_every", kByPosAndHead, kEveryHead,
                   "the same at one position (of patterns: one query)"},
    PatchingPreset{"block_every", "", kByPos, kEveryBlock,
                   "the stream before each block, and what its halves add to it"},
};

/// The preset's axes, with the places that the caller narrowed them to.
std::vector<SweptAxis> axes_of(const PatchingPreset& preset, const SweepOptions& options) {
  std::vector<SweptAxis> over(preset.over.begin(), preset.over.end());
  for (const SweptAxis& given : options.over) {
    const auto own = std::find_if(over.begin(), over.end(),
                                  [&](const SweptAxis& axis) { return axis.axis == given.axis; });
    if (own != over.end()) {
      if (!own->places.empty()) {
        throw HookError(preset.name,
                        fmt::format("{} stands twice in `over`; expected it once", axis_name(given.axis)));
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

SweepReport report_of(const HookedTransformer& model, const PatchingPreset& preset,
                      const SweepOptions& options, OnFailure on_failure) {
  if (options.site || !options.table.empty()) {
    throw HookError(preset.name, "a preset says what is patched; expected neither `site` nor `table`");
  }
  const SweepInput into(model, options.into);
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
  // Where rows stand is said among the preset's axes.
  SweepOptions own = options;
  std::erase_if(own.over, [](const SweptAxis& axis) { return axis.axis != Axis::batch; });
  return swept(model, own, into, plan, on_failure);
}

}  // namespace

std::span<const PatchingPreset> patching_presets() noexcept { return kPresets; }

const PatchingPreset& patching_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const PatchingPreset& preset : kPresets) {
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
