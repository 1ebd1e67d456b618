// The options of `hooked patch`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "core/json.h"
#include "core/parse_integer.h"
#include "options/command.h"
#include "options/pair_options.h"
#include "options/patch_names.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

/// What the parser fills in addition to the options, to be read when everything is parsed.
struct PatchWords {
  std::vector<std::string> sweeps, metrics;
  std::string source, with;
};

std::pair<std::int64_t, std::int64_t> read_head(std::string_view text) {
  const auto dot = text.find('.');
  const auto layer = parse_integer(text.substr(0, dot));
  const auto head = dot == std::string_view::npos ? std::nullopt : parse_integer(text.substr(dot + 1));
  if (layer && head) return {*layer, *head};
  throw UsageError(
      fmt::format("--source: '{}' is not a head; expected LAYER.HEAD such as 9.6", printable(text)));
}

void require_fit(const PatchOptions& options) {
  const bool of_a_file = !options.pairs.empty();
  require_scored(options);
  require(!takes_many_rows(options.with) || of_a_file,
          "--from mean_... and resampled are of the clean prompts of many pairs; expected --pairs");
  const bool paths = std::any_of(options.sweeps.begin(), options.sweeps.end(), [](const auto& sweep) {
    return sweep.kind == SweepChoice::Kind::direct_path;
  });
  require(!options.source || paths,
          "--source is where paths begin; expected --sweep with direct_path_q, direct_path_k or "
          "direct_path_v");
  require_grid_file(options.out);
  require_ending("--partial", options.partial, kTensorEnding);
  require(options.out.empty() || options.out != options.partial,
          "--out and --partial name one file; expected two");
}

void add_sweeps(CLI::App& app, PatchOptions& options, PatchWords& words) {
  static constexpr auto* kGroup = "What is patched";
  app.add_option("--sweep", words.sweeps,
                 fmt::format("separated by commas: {}, or a site and its axes such as post:layer,d_mlp",
                             fmt::join(sweep_names(), ", ")))
      ->option_text("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required()
      ->check(offering(sweep_names()))
      ->group(kGroup);
  app.add_option("--source", words.source, "the head where direct paths begin (default: every head)")
      ->option_text("L.H")
      ->group(kGroup);
  add_integers(app, "--layers", options.layers, "only these layers, such as 0,3,-1")
      ->option_text("LIST")
      ->group(kGroup);
  add_integers(app, "--heads", options.heads, "only these heads")->option_text("LIST")->group(kGroup);
  app.add_option("--positions", options.positions,
                 "only these columns (negative from the end), last, or names of places in the file of pairs, "
                 "which may be in other columns of the clean prompt")
      ->option_text("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(kGroup);
  auto* with =
      app.add_option("--from", words.with,
                     "what is put in: the clean run's values, zero, the mean over all clean prompts of the "
                     "file (by position, or over all positions as well), or a resampled one of these "
                     "(default: clean)")
          ->option_text("WHAT")
          ->check(CLI::IsMember(patch_with_names("clean")))
          ->group(kGroup);
  app.add_option("--seed", options.seed, "of --from resampled (default: 0)")
      ->option_text("X")
      ->needs(with)
      ->group(kGroup);
  app.add_flag("--noising", options.noising,
               "patch the corrupted run's values into the clean run instead of the other way round")
      ->group(kGroup);
  add_edit_option(app, options.edits);
}

void add_outputs(CLI::App& app, PatchOptions& options) {
  static constexpr auto* kGroup = "Output";
  app.add_flag("--per-pair", options.per_pair, "the numbers of each pair instead of their mean")
      ->group(kGroup);
  auto* out = app.add_option("--out", options.out,
                             "a file for the scores: .csv, .json, .svg (a heat map) or .safetensors; of "
                             "several sweeps each has one, F with the sweep's name before the ending")
                  ->option_text(kFileWord)
                  ->group(kGroup);
  app.add_flag("--rescaled", options.rescaled, "of --out: corrupted 0, clean 1, instead of the scores")
      ->needs(out)
      ->group(kGroup);
  add_force_option(app, options.force, {out})->group(kGroup);
  app.add_option("--partial", options.partial,
                 "a file (.safetensors) for what is done so far: Ctrl-C leaves it, the same command line "
                 "continues from it, and it is gone when all is done")
      ->option_text(kFileWord)
      ->group(kGroup);
  add_json_option(app, options.json)->group(kGroup);
}

}  // namespace

Reader define_patch(CLI::App& app) {
  auto options = std::make_shared<PatchOptions>();
  auto words = std::make_shared<PatchWords>();
  OneOf inputs;
  add_model_options(app, options->model);
  app.add_option(
         "--replicas", options->replicas,
         "devices, as cuda:0,cuda:1 or cuda:all: the model is copied to each, and they share the runs")
      ->option_text("DEVICES");
  add_pairs(app, *options, inputs);
  add_scores(app, *options, words->metrics);
  add_sweeps(app, *options, *words);
  add_outputs(app, *options);
  return [options, words, inputs] {
    require_one(inputs);
    options->sweeps = read_sweeps(words->sweeps);
    options->metrics = read_metrics(words->metrics);
    if (!words->source.empty()) options->source = read_head(words->source);
    if (!words->with.empty()) options->with = read_patch_with(words->with);
    require(
        !options->noising || words->with != "clean",
        "--noising patches into the clean run; expected --from zero, a mean or resampled with it, or none "
        "for the corrupted run's values");
    require(!options->seed || options->with == PatchWith::resampled,
            "--seed is of --from resampled; expected both or neither");
    require_fit(*options);
    return *options;
  };
}

}  // namespace hooked::cli
