// The options of `hooked circuits`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/pair_options.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

/// What the parser fills in addition to the options.
struct CircuitWords {
  std::vector<std::string> metrics, hold;
  std::string with;
};

void require_fit(const CircuitsOptions& options) {
  require_scored(options);
  require(options.metrics.size() <= 1, "--metric: a circuit is scored by one number; expected one metric");
  require(!takes_many_rows(options.with) || !options.pairs.empty(),
          "--from mean_... and resampled are of the corrupted prompts of many pairs; expected --pairs");
  require(!(options.top && options.threshold),
          "--top and --threshold each say how many parts are chosen; expected one");
  const bool chooses = options.top || options.threshold;
  require(options.circuit.empty() || !chooses,
          "--circuit is a choice already; expected no --top or --threshold");
  require(!options.greedy || (options.edges && options.top),
          "--greedy follows edges up to a number of them; expected --edges and --top");
  require(options.save.empty() || chooses, "--save writes what is chosen; expected --top or --threshold");
  require(!options.judge || chooses || !options.circuit.empty(),
          "--judge needs a circuit; expected --top, --threshold or --circuit");
  require_grid_file(options.out);
  require_ending("--save", options.save, ".json");
  require(!options.force || !options.out.empty() || !options.save.empty(),
          "--force is about files that are written; expected --out or --save with it");
  require(options.out.empty() || options.out != options.save, "--out and --save name one file; expected two");
}

void add_estimates(CLI::App& app, CircuitsOptions& options, CircuitWords& words) {
  static constexpr auto* kGroup = "Scores of parts, by gradients";
  app.add_flag("--edges", options.edges,
               "scores of what each part reads of each other, not of heads and MLPs")
      ->group(kGroup);
  app.add_option("--steps", options.steps,
                 "integrate over N runs between the two prompts' embeddings (default: one gradient)")
      ->option_text("N")
      ->check(at_least_one())
      ->group(kGroup);
  app.add_option("--hold", words.hold, "what passes no gradient: norms (their scales), patterns, or both")
      ->option_text("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"norms", "patterns"}))
      ->group(kGroup);
  app.add_option("--from", words.with,
                 "what replaces a part: its value in the corrupted run, zero, the mean over all corrupted "
                 "prompts of the file (by position, or over all positions as well), or a resampled one of "
                 "these (default: corrupted)")
      ->option_text("WHAT")
      ->check(CLI::IsMember(patch_with_names("corrupted")))
      ->group(kGroup);
  app.add_option("--check", options.check,
                 "patch the N parts with the largest scores and N others, and say how well the scores "
                 "foretold it")
      ->option_text("N")
      ->check(at_least_one())
      ->group(kGroup);
  app.add_option("--seed", options.seed,
                 "of what is drawn: resampled prompts, checked parts, other sets (default: 0)")
      ->option_text("X")
      ->group(kGroup);
  add_edit_option(app, options.edits);
}

CLI::Option* add_choice(CLI::App& app, CircuitsOptions& options) {
  static constexpr auto* kGroup = "The circuit";
  app.add_option("--top", options.top, "the N parts with the largest scores, pruned")
      ->option_text("N")
      ->check(at_least_one())
      ->group(kGroup);
  app.add_option("--threshold", options.threshold, "all parts whose score has at least this size, pruned")
      ->option_text("X")
      ->group(kGroup);
  app.add_flag("--greedy", options.greedy, "of edges: each leads into those before, from the logits on")
      ->group(kGroup);
  app.add_option("--circuit", options.circuit, "the circuit of a file instead of a choice")
      ->option_text(kFileWord)
      ->group(kGroup);
  auto* save = app.add_option("--save", options.save, "writes the chosen circuit: .json");
  save->option_text(kFileWord)->group(kGroup);
  app.add_option(
         "--judge", options.judge,
         "run the circuit alone and ablated, without each part, and N other sets of its size (0: none)")
      ->option_text("N")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup);
  return save;
}

void add_output(CLI::App& app, CircuitsOptions& options, CLI::Option* save) {
  static constexpr auto* kGroup = "Output";
  app.add_option("--top-k", options.top_k, "how many scores are shown (default: 20)")
      ->option_text("K")
      ->check(at_least_one())
      ->group(kGroup);
  auto* out = app.add_option("--out", options.out,
                             "writes all scores: .csv, .json, .svg (a heat map) or .safetensors");
  out->option_text(kFileWord)->group(kGroup);
  add_force_option(app, options.force, {out, save})->group(kGroup);
  add_json_option(app, options.json)->group(kGroup);
}

}  // namespace

Reader define_circuits(CLI::App& app) {
  auto options = std::make_shared<CircuitsOptions>();
  auto words = std::make_shared<CircuitWords>();
  OneOf inputs;
  add_model_options(app, options->model);
  add_pairs(app, *options, inputs);
  add_scores(app, *options, words->metrics);
  add_estimates(app, *options, *words);
  auto* save = add_choice(app, *options);
  add_output(app, *options, save);
  return [options, words, inputs] {
    require_one(inputs);
    options->metrics = read_metrics(words->metrics);
    if (!words->with.empty()) options->with = read_patch_with(words->with);
    for (const std::string& held : words->hold)
      (held == "norms" ? options->hold_norms : options->hold_patterns) = true;
    require_fit(*options);
    return *options;
  };
}

}  // namespace hooked::cli
