// hooked patch: activation patching over presets, paths into heads, and sites over axes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/patch_output.h"
#include "cli/patch_prompts.h"
#include "cli/picture.h"
#include "cli/progress_bar.h"
#include "core/nearest.h"
#include "hooked/analysis/direct_path.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/error.h"
#include "hooked/engine/replicate.h"
#include "options/command.h"
#include "options/command_options.h"

namespace hooked::cli {
namespace {

bool of_tokens(Axis axis) { return axis == Axis::pos || axis == Axis::query || axis == Axis::key; }

bool of_heads(Axis axis) { return axis == Axis::head || axis == Axis::kv_head; }

HeadInput head_input_of(const std::string& direct_path) {
  if (direct_path.ends_with('q')) return HeadInput::query;
  return direct_path.ends_with('k') ? HeadInput::key : HeadInput::value;
}

/// `mlp.hook_post` of `{stack}.{layer}.mlp.hook_post`, as `hooked names` shows it after the layer; of a point
/// inside dictionaries what comes after the activation.
std::string_view path_in_block(const SiteRow& row) {
  for (const std::string_view before : {"{stack}.{layer}.", "{host}."}) {
    if (row.path.starts_with(before)) return row.path.substr(before.size());
  }
  return row.path;
}

/// The site of this word or path, if it is in a scope.
std::optional<Site> site_named(std::string_view name, SiteScope scope) {
  for (const SiteRow& row : site_table()) {
    if (row.scope == scope && (row.word == name || path_in_block(row) == name)) return row.site;
  }
  return std::nullopt;
}

/// `post`, `mlp.hook_post`, `sae_acts_post`, `resid_post.sae_acts_post`.
SweptSite site_of(const SweepChoice& choice) {
  const std::string_view name = choice.site;
  for (const SiteRow& row : site_table()) {
    if (row.word != name && path_in_block(row) != name) continue;
    if (row.scope == SiteScope::dictionary) return act::DictionarySite{row.site};
    return act::BlockSite{row.site};
  }
  if (const auto dot = name.rfind('.'); dot != std::string_view::npos) {
    const auto inside = site_named(name.substr(dot + 1), SiteScope::dictionary);
    const auto host = site_named(name.substr(0, dot), SiteScope::block);
    if (inside && host) return {act::DictionarySite{*inside}, act::BlockSite{*host}};
  }
  std::vector<std::string> words;
  for (const SiteRow& row : site_table()) {
    if (row.scope == SiteScope::block || row.scope == SiteScope::dictionary)
      words.insert(words.end(), {std::string(row.word), std::string(path_in_block(row))});
  }
  throw HookError("--sweep",
                  fmt::format("'{}': there is no site '{}'; expected one that every layer has{}", choice.name,
                              choice.site, nearest_text(kDidYouMean, choice.site, words)));
}

// The heads that a range without an end takes: of a site those that it has, and layers may differ.
std::int64_t most_heads(const SweepChoice& choice, Axis axis, const ModelConfig& config) {
  if (choice.kind == SweepChoice::Kind::site) axis = axis_on(site_of(choice).site, axis).value_or(axis);
  std::int64_t most = 0;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer)
    most = std::max(most, size_of(axis, config, layer));
  return most;
}

/// The sites that a choice patches.
std::vector<SweptSite> sites_of(const SweepChoice& choice) {
  if (choice.kind == SweepChoice::Kind::direct_path) return {act::z};
  if (choice.kind == SweepChoice::Kind::site) return {site_of(choice)};
  std::vector<SweptSite> sites;
  for (const PresetPart& part : patching_preset(choice.name).parts)
    sites.emplace_back(act::BlockSite{part.site});
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
void require_axes(const SweepChoice& choice, bool has_dictionaries) {
  if (choice.kind != SweepChoice::Kind::site) return;
  const SiteRow& site = row(site_of(choice).site);
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
  if (site.scope != SiteScope::block && site.scope != SiteScope::dictionary)
    throw UsageError(
        fmt::format("--sweep: {} is outside the blocks; expected a site that every layer has", choice.site));
  if (site.scope == SiteScope::dictionary && !has_dictionaries)
    throw UsageError(
        fmt::format("--sweep: {} is inside a dictionary; expected --dictionary with it", choice.site));
  if (std::find(axes.begin(), axes.end(), Axis::layer) == axes.end()) refuse("has no axis layer");
  for (const Axis axis : axes) {
    const bool known = axis == Axis::layer || (axis == Axis::expert && per_expert(site)) ||
                       (axis != Axis::batch && axis_on(site.site, axis).has_value());
    if (!known) refuse(fmt::format("cannot be swept over {}", axis_name(axis)));
  }
}

/// The sweeps of one patching.
class PatchSweeps {
 public:
  /// Throws HookError for sites that do not exist, UsageError if --layers, --heads or --positions narrow none
  /// of the sweeps, and as replicate() for --replicas.
  PatchSweeps(const HookedTransformer& model, const PatchOptions& options, const PatchPrompts& prompts);

  /// The side that is patched, and the side that values come from.
  PromptSide into() const { return options_.noising ? PromptSide::clean : PromptSide::corrupted; }
  PromptSide from() const { return options_.noising ? PromptSide::corrupted : PromptSide::clean; }

  /// Runs one sweep. `progress` may end it; `partial` is its file, empty for none. Throws as sweep() does.
  SweepReport run(const SweepChoice& choice, std::function<bool(const SweepProgress&)> progress,
                  const std::string& partial) const;

 private:
  SweepOptions options_of(const SweepChoice& choice) const;
  std::vector<SweptPlace> places_on(const SweepChoice& choice, Axis axis) const;
  PatchSource source(const std::vector<SweptSite>& sites) const;

  const HookedTransformer& model_;
  const PatchOptions& options_;
  const PatchPrompts& prompts_;
  std::vector<HookedTransformer> replicas_;
};

PatchSweeps::PatchSweeps(const HookedTransformer& model, const PatchOptions& options,
                         const PatchPrompts& prompts)
    : model_(model), options_(options), prompts_(prompts) {
  if (!options.replicas.empty()) replicas_ = replicate(model, options.replicas);
  std::vector<Axis> axes;
  for (const SweepChoice& choice : options.sweeps) {
    require_axes(choice, !model.dictionaries().empty());
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

std::vector<SweptPlace> PatchSweeps::places_on(const SweepChoice& choice, Axis axis) const {
  std::vector<SweptPlace> places;
  const auto add = [&](const PlaceList& given, std::int64_t size, std::string_view option) {
    const std::vector<Position> read = cli::places_on(given, axis, size, option);
    places.assign(read.begin(), read.end());
  };
  if (axis == Axis::layer) add(options_.layers, model_.config().n_layers, "--layers");
  if (of_heads(axis)) add(options_.heads, most_heads(choice, axis, model_.config()), "--heads");
  if (of_tokens(axis)) {
    for (const std::string& given : options_.positions) {
      for (const std::string& text : prompts_.each_position(into(), given))
        places.emplace_back(prompts_.position(into(), text), prompts_.position(from(), text));
    }
  }
  return places;
}

PatchSource PatchSweeps::source(const std::vector<SweptSite>& sites) const {
  Selection capture;
  for (const SweptSite& swept : sites) {
    const Site site = swept.site;
    capture = capture | (row(site).scope == SiteScope::dictionary
                             ? Selection::matching([swept](const ActivationName& name) {
                                 return name.site == swept.site && (!swept.host || name.host == swept.host);
                               })
                             : Selection(act::BlockSite{site}));
    if (per_expert(row(site))) capture = capture | Selection(act::expert_indices);
  }
  return prompts_.source(options_.with, options_.with == PatchWith::other_run ? from() : PromptSide::clean,
                         {.capture = std::move(capture), .seed = options_.seed.value_or(0)});
}

SweepOptions PatchSweeps::options_of(const SweepChoice& choice) const {
  SweepOptions sweep{.from = source(sites_of(choice)),
                     .into = prompts_.input(into()),
                     .metric = prompts_.metrics(into()),
                     .edits = prompts_.edits(into())};
  for (const Axis axis : axes_of(choice)) {
    auto places = places_on(choice, axis);
    const bool of_site = choice.kind == SweepChoice::Kind::site;
    if (of_site || !places.empty()) sweep.over.emplace_back(axis, std::move(places));
    if (of_site) sweep.site = site_of(choice);
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
  DirectPathOptions paths{.input = head_input_of(choice.name)};
  if (options_.source) paths.source = HeadPlace{options_.source->first, options_.source->second};
  paths.sweep = std::move(sweep);
  return direct_path_report(model_, paths);
}

std::string file_of_sweep(const std::string& file, const SweepChoice& choice, const PatchOptions& options) {
  return file_of(file, choice.name, options.sweeps.size() > 1);
}

// A run continues from a file of partial results: --force does not apply to it.
void require_can_go_on(const std::filesystem::path& partial, Overwrite) { require_can_keep(partial); }

UnpatchedScores unpatched_scores(const PatchPrompts& prompts) {
  UnpatchedScores scores{.kinds = prompts.metric_kinds(),
                         .names = {},
                         .clean = prompts.scores(PromptSide::clean),
                         .corrupted = prompts.scores(PromptSide::corrupted)};
  for (const Metric& metric : prompts.metrics(PromptSide::clean)) scores.names.push_back(metric.name());
  return scores;
}

/// How far the sweeps got.
struct Patching {
  std::vector<SweepNumbers> sweeps;
  std::int64_t done = 0, cells = 0;  ///< of the last sweep
  bool complete = false;             ///< all of all sweeps
};

Patching run_sweeps(const PatchOptions& options, const PatchSweeps& sweeps, const UnpatchedScores& scores) {
  Patching made;
  for (const SweepChoice& choice : options.sweeps) {
    if (interrupted()) return made;
    WatchedWork work(choice.name);
    made.sweeps.emplace_back(
        choice.name, sweeps.run(choice, work.progress(), file_of_sweep(options.partial, choice, options)),
        scores);
    made.done = work.done();
    made.cells = work.total();
    if (!made.sweeps.back().report().complete) return made;
  }
  made.complete = true;
  return made;
}

// Notes of the unpatched runs and of all sweeps, each once.
std::vector<std::string> notes_of_sweeps(const UnpatchedScores& scores,
                                         const std::vector<SweepNumbers>& sweeps) {
  std::vector<std::string> notes;
  for (const auto& [side, values] : {std::pair{"clean", scores.clean}, {"corrupted", scores.corrupted}}) {
    bool finite = true;  // the loss of a single token is NaN, which says nothing about the logits
    for (std::size_t m = 0; m < scores.names.size(); ++m) {
      const double sum = values[static_cast<std::int64_t>(m)].sum().item<double>();
      finite = finite && (std::isfinite(sum) || (std::isnan(sum) && scores.names[m] == "loss"));
    }
    if (finite) continue;
    notes.push_back(
        fmt::format("{}the {} run's scores are NaN or infinite, as its logits are", kNotFinite, side));
  }
  for (const SweepNumbers& sweep : sweeps) {
    for (const std::string& note : sweep.report().notes) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    }
  }
  return notes;
}

// Differences of logits and probabilities do not change if the unembedding is centred.
void print_centred(const UnpatchedScores& scores, const ModelConfig& config) {
  if (!config.logits_centred() || std::ranges::find(scores.kinds, MetricKind::logit) == scores.kinds.end())
    return;
  fmt::print(
      "\nThe metric logit is centred: center_unembed took the mean over the vocabulary from it "
      "(--no-processing keeps it)\n");
}

// What was not done, in one line.
void print_rest(const Patching& made, const PatchOptions& options) {
  const std::size_t begun = made.sweeps.size();
  std::vector<std::string> rest;
  if (begun > 0 && !made.sweeps.back().report().complete) {
    const SweepNumbers& last = made.sweeps.back();
    rest.push_back(fmt::format(
        "{} has {} of {} numbers{}", last.name(), grouped(made.done), grouped(made.cells),
        last.all_pairs() == 1 ? ""
                              : fmt::format(", {} of {} pairs are whole", last.pairs(), last.all_pairs())));
  }
  for (std::size_t i = begun; i < options.sweeps.size(); ++i)
    rest.push_back(fmt::format("{} was not begun", options.sweeps[i].name));
  fmt::print("\nended early: {}", fmt::join(rest, ", "));
  fmt::print("{}\n", options.partial.empty()
                         ? "; nothing is kept for another call, which --partial F would do"
                         : "; the same command line continues from there");
}

}  // namespace

void perform(const PatchOptions& options) {
  const CommandReads reads(options);
  for (const SweepChoice& choice : options.sweeps) {
    require_can_write(file_of_sweep(options.out, choice, options), Grid::require_can_save, reads,
                      options.force);
    require_can_write(file_of_sweep(options.partial, choice, options), require_can_go_on, reads, false);
  }
  const auto model = load_model(options.model);
  const PatchPrompts prompts(model, options);
  const PatchSweeps sweeps(model, options, prompts);
  const UnpatchedScores scores = unpatched_scores(prompts);
  const InterruptGuard guard;
  const Patching made = run_sweeps(options, sweeps, scores);
  const std::vector<std::string> notes = notes_of_sweeps(scores, made.sweeps);
  // Shown first, so that a full disk does not lose what was computed.
  if (options.json) {
    Json json = model_json(model);
    json.update(patching_json(made.sweeps, scores, options.per_pair));
    json["complete"] = made.complete;
    prompts.add_tokens(sweeps.into(), json);
    json["logits_centred"] = model.config().logits_centred();
    json["not_finite"] = not_finite_json(notes);
    print_json(json);
  } else {
    const std::int64_t pairs = scores.clean.size(1);
    print_unpatched(scores, pairs > 1 ? fmt::format("{} pairs", pairs) : "", options.per_pair);
    for (const SweepNumbers& sweep : made.sweeps) print_sweep(sweep, scores, options.per_pair);
    print_centred(scores, model.config());
    if (!made.complete) print_rest(made, options);
  }
  std::fflush(stdout);
  print_notes(notes);
  for (std::size_t i = 0; i < made.sweeps.size() && !options.out.empty(); ++i) {
    const std::string file = file_of_sweep(options.out, options.sweeps[i], options);
    if (!save_sweep(made.sweeps[i], options, prompts, file)) continue;
    if (!options.json) fmt::print("{}{}\n", i == 0 ? "\n" : "", file);
  }
  if (options.partial.empty() || !made.complete) return;
  for (const SweepChoice& choice : options.sweeps) {
    std::error_code gone;  // leaving it does no harm
    std::filesystem::remove(file_of_sweep(options.partial, choice, options), gone);
  }
}

}  // namespace hooked::cli
