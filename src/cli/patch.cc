// hooked patch: activation patching.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/patch_output.h"
#include "cli/patch_prompts.h"
#include "cli/patch_sweeps.h"
#include "cli/watched_work.h"

namespace hooked::cli {
namespace {

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
std::vector<std::string> notes_of(const UnpatchedScores& scores, const std::vector<SweepNumbers>& sweeps) {
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
    rest.push_back(fmt::format("{} has {} of {} numbers", made.sweeps.back().name(), grouped(made.done),
                               grouped(made.cells)));
  }
  for (std::size_t i = begun; i < options.sweeps.size(); ++i)
    rest.push_back(fmt::format("{} was not begun", options.sweeps[i].name));
  fmt::print("\nended early: {}", fmt::join(rest, ", "));
  fmt::print("{}\n", options.partial.empty()
                         ? "; nothing is kept for another call, which --partial F would do"
                         : "; the same command line continues from there");
}

Json with_tokens(Json json, const PatchPrompts& prompts, const PatchSweeps& sweeps, bool complete) {
  json["complete"] = complete;
  add_tokens(prompts.input(sweeps.into()), json);
  json["around"] = prompts.around();
  json["clean_tokens"] = rows_json(prompts.pairs().clean().tokens);
  json["corrupted_tokens"] = rows_json(prompts.pairs().corrupted().tokens);
  return json;
}

}  // namespace

void perform(const PatchOptions& options) {
  const auto reads = CommandReads(options.model).add(options);
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
  const std::vector<std::string> notes = notes_of(scores, made.sweeps);
  // Shown first, so that a full disk does not lose what was computed.
  if (options.json) {
    Json json =
        with_tokens(patching_json(made.sweeps, scores, options.per_pair), prompts, sweeps, made.complete);
    json["logits_centred"] = model.config().logits_centred();
    json["not_finite"] = not_finite_json(notes);
    print_json(json);
  } else {
    print_unpatched(scores, options.per_pair);
    for (const SweepNumbers& sweep : made.sweeps) print_sweep(sweep, scores, options.per_pair);
    print_centred(scores, model.config());
    if (!made.complete) print_rest(made, options);
  }
  std::fflush(stdout);
  print_notes(notes);
  print_notes(prompts.answer_notes());
  const PatchScale scale = options.rescaled ? PatchScale::rescaled : PatchScale::scores;
  for (std::size_t i = 0; i < made.sweeps.size() && !options.out.empty(); ++i) {
    const std::string file = file_of_sweep(options.out, options.sweeps[i], options);
    made.sweeps[i].all(scale, options.per_pair).save(file, overwrite_of(options.force));
    if (!options.json) fmt::print("{}{}\n", i == 0 ? "\n" : "", file);
  }
  if (options.partial.empty() || !made.complete) return;
  for (const SweepChoice& choice : options.sweeps) {
    std::error_code gone;  // leaving it does no harm
    std::filesystem::remove(file_of_sweep(options.partial, choice, options), gone);
  }
}

}  // namespace hooked::cli
