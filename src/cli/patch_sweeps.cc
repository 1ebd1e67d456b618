// What `hooked patch` sweeps: presets, paths into heads, and sites over axes.
#include "cli/patch_sweeps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/nearest.h"
#include "hooked/analysis/direct_path.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/core/error.h"
#include "hooked/engine/replicate.h"
#include "options/command.h"

namespace hooked::cli {
namespace {

bool of_tokens(Axis axis) { return axis == Axis::pos || axis == Axis::query || axis == Axis::key; }

bool of_heads(Axis axis) { return axis == Axis::head || axis == Axis::kv_head; }

HeadInput input_of(const std::string& direct_path) {
  if (direct_path.ends_with('q')) return HeadInput::query;
  return direct_path.ends_with('k') ? HeadInput::key : HeadInput::value;
}

/// `mlp.hook_post` of `{stack}.{layer}.mlp.hook_post`, as `hooked names` shows it after the layer.
std::string_view path_in_block(const SiteRow& row) {
  constexpr std::string_view kBlock = "{stack}.{layer}.";
  return row.path.starts_with(kBlock) ? row.path.substr(kBlock.size()) : row.path;
}

Site site_of(const SweepChoice& choice) {
  std::vector<std::string> words;
  for (const SiteRow& row : site_table()) {
    const std::string_view path = path_in_block(row);
    if (row.word == choice.site || path == choice.site) return row.site;
    if (row.scope == SiteScope::block) words.insert(words.end(), {std::string(row.word), std::string(path)});
  }
  throw HookError("--sweep",
                  fmt::format("'{}': there is no site '{}'; expected one that every layer has; did "
                              "you mean '{}'?",
                              choice.name, choice.site, nearest(choice.site, words)));
}

/// The sites that a choice patches.
std::vector<Site> sites_of(const SweepChoice& choice) {
  if (choice.kind == SweepChoice::Kind::direct_path) return {Site::z};
  if (choice.kind == SweepChoice::Kind::site) return {site_of(choice)};
  std::vector<Site> sites;
  for (const PresetPart& part : patching_preset(choice.name).parts) sites.push_back(part.site);
  return sites;
}

/// The axes of a choice that can be narrowed.
std::vector<Axis> axes_of(const SweepChoice& choice) {
  if (choice.kind == SweepChoice::Kind::direct_path) return {};
  if (choice.kind == SweepChoice::Kind::preset) {
    const auto over = patching_preset(choice.name).over;
    return {over.begin(), over.end()};
  }
  std::vector<Axis> axes;
  for (const std::string& name : choice.axes) axes.push_back(*parse_axis(name));
  return axes;
}

// Checked before the first sweep runs, so that a mistake in the last one costs nothing.
void require_axes(const SweepChoice& choice) {
  if (choice.kind != SweepChoice::Kind::site) return;
  const SiteRow& site = row(site_of(choice));
  const auto axes = axes_of(choice);
  const auto refuse = [&](std::string_view what) {
    std::vector<std::string_view> names;
    if (per_expert(site)) names.push_back(axis_name(Axis::expert));
    for (const Axis axis : site.axes) {
      if (axis != Axis::batch && axis != Axis::one && axis != Axis::routed) names.push_back(axis_name(axis));
    }
    throw UsageError(fmt::format("--sweep: '{}' {}; expected {}:layer and any of {}", choice.name, what,
                                 choice.site, fmt::join(names, ", ")));
  };
  if (site.scope != SiteScope::block)
    throw UsageError(
        fmt::format("--sweep: {} is outside the blocks; expected a site that every layer has", choice.site));
  if (std::find(axes.begin(), axes.end(), Axis::layer) == axes.end()) refuse("has no axis layer");
  for (const Axis axis : axes) {
    const bool known = axis == Axis::layer || (axis == Axis::expert && per_expert(site)) ||
                       (axis != Axis::batch && axis_on(site.site, axis).has_value());
    if (!known) refuse(fmt::format("cannot be swept over {}", axis_name(axis)));
  }
}

}  // namespace

PatchSweeps::PatchSweeps(const HookedTransformer& model, const PatchOptions& options,
                         const PatchPrompts& prompts)
    : model_(model), options_(options), prompts_(prompts) {
  if (!options.replicas.empty()) replicas_ = replicate(model, options.replicas);
  std::vector<Axis> axes;
  for (const SweepChoice& choice : options.sweeps) {
    require_axes(choice);
    for (const Axis axis : axes_of(choice)) axes.push_back(axis);
  }
  const auto require_one_of = [&](bool given, std::string_view option, const auto& matches) {
    if (!given || std::any_of(axes.begin(), axes.end(), matches)) return;
    throw UsageError(
        fmt::format("{} narrows none of the sweeps; expected one with such an axis, such as "
                    "attn_head_out_by_pos",
                    option));
  };
  require_one_of(!options.layers.empty(), "--layers", [](Axis axis) { return axis == Axis::layer; });
  require_one_of(!options.heads.empty(), "--heads", of_heads);
  require_one_of(!options.positions.empty(), "--positions", of_tokens);
}

std::vector<SweptPlace> PatchSweeps::places_on(Axis axis) const {
  std::vector<SweptPlace> places;
  if (axis == Axis::layer) places.assign(options_.layers.begin(), options_.layers.end());
  if (of_heads(axis)) places.assign(options_.heads.begin(), options_.heads.end());
  if (of_tokens(axis)) {
    for (const std::string& text : options_.positions)
      places.emplace_back(prompts_.position(into(), text), prompts_.position(from(), text));
  }
  return places;
}

PatchSource PatchSweeps::source(const std::vector<Site>& sites) const {
  if (options_.with == PatchWith::zero) return PatchSource::zero();
  Selection capture;
  for (const Site site : sites) {
    capture = capture | Selection(act::BlockSite{site});
    if (per_expert(row(site))) capture = capture | Selection(act::expert_indices);
  }
  const PromptSide side = options_.with == PatchWith::other_run ? from() : PromptSide::clean;
  ActivationCache run =
      model_
          .run(prompts_.input(side),
               {.edits = prompts_.edits(side), .capture = std::move(capture), .output = Output::none})
          .cache;
  return source_of(options_.with, std::move(run),
                   {.name = side == PromptSide::clean ? "the clean run" : "the corrupted run",
                    .seed = options_.seed.value_or(0)});
}

SweepOptions PatchSweeps::options_of(const SweepChoice& choice) const {
  SweepOptions sweep{.from = source(sites_of(choice)),
                     .into = prompts_.input(into()),
                     .metric = prompts_.metrics(into()),
                     .edits = prompts_.edits(into())};
  for (const Axis axis : axes_of(choice)) {
    auto places = places_on(axis);
    const bool of_site = choice.kind == SweepChoice::Kind::site;
    if (of_site || !places.empty()) sweep.over.emplace_back(axis, std::move(places));
    if (of_site) sweep.site = act::BlockSite{site_of(choice)};
  }
  return sweep;
}

SweepReport PatchSweeps::run(const SweepChoice& choice, std::function<bool(const SweepProgress&)> progress,
                             const std::string& partial) const {
  SweepOptions sweep = options_of(choice);
  sweep.progress = std::move(progress);
  sweep.partial = partial;
  sweep.replicas = replicas_;
  if (choice.kind == SweepChoice::Kind::preset)
    return sweep_report(model_, patching_preset(choice.name), sweep);
  if (choice.kind == SweepChoice::Kind::site) return sweep_report(model_, sweep);
  DirectPathOptions paths{.input = input_of(choice.name)};
  if (options_.source) paths.source = HeadPlace{options_.source->first, options_.source->second};
  paths.sweep = std::move(sweep);
  return direct_path_report(model_, paths);
}

}  // namespace hooked::cli
