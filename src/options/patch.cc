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
#include "options/patch_names.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

/// What the parser fills in besides the options, to be read when all is there.
struct PatchWords {
  std::vector<std::string> sweeps, metrics;
  std::string source, with;
};

constexpr std::array<std::pair<std::string_view, PatchWith>, 4> kWith{{{"clean", PatchWith::other_run},
                                                                       {"zero", PatchWith::zero},
                                                                       {"mean", PatchWith::mean},
                                                                       {"resampled", PatchWith::resampled}}};

std::pair<std::int64_t, std::int64_t> read_head(std::string_view text) {
  const auto dot = text.find('.');
  const auto layer = parse_integer(text.substr(0, dot));
  const auto head = dot == std::string_view::npos ? std::nullopt : parse_integer(text.substr(dot + 1));
  if (layer && head) return {*layer, *head};
  throw UsageError(
      fmt::format("--source: '{}' is no head; expected LAYER.HEAD such as 9.6", printable(text)));
}

void require(bool holds, const std::string& sentence) {
  if (!holds) throw UsageError(sentence);
}

// What scores the runs of one pair; those of a file may have answers of their own.
void require_answers(const PatchOptions& options) {
  if (!options.pairs.empty()) return;
  const bool answer = !options.answers.empty() || !options.answer_tokens.empty();
  const bool against = !options.against.empty() || !options.against_tokens.empty();
  require(answer || !options.metrics.empty(),
          "nothing says what is scored; expected --answer and --against, or --metric loss, kl_divergence or "
          "js_divergence");
  for (const MetricKind kind : options.metrics) {
    const MetricName& metric = metric_name(kind);
    if (metric.needs_answer && !answer)
      throw UsageError(
          fmt::format("--metric {} needs an answer; expected --answer or --answer-token", metric.name));
    if (metric.needs_against && !against)
      throw UsageError(fmt::format(
          "--metric {} needs what the answer is held against; expected --against or --against-token",
          metric.name));
  }
}

void require_fit(const PatchOptions& options) {
  const bool of_a_file = !options.pairs.empty();
  require_answers(options);
  for (std::size_t i = 0; i < options.metrics.size(); ++i) {
    if (std::count(options.metrics.begin(), options.metrics.end(), options.metrics[i]) > 1)
      throw UsageError(fmt::format("--metric: {} stands twice; expected each metric once",
                                   metric_name(options.metrics[i]).name));
  }
  const bool over_data = options.with == PatchWith::mean || options.with == PatchWith::resampled;
  require(!over_data || of_a_file,
          "--from mean and resampled are of the clean prompts of many pairs; expected --pairs");
  const bool paths = std::any_of(options.sweeps.begin(), options.sweeps.end(), [](const auto& sweep) {
    return sweep.kind == SweepChoice::Kind::direct_path;
  });
  require(!options.source || paths,
          "--source is where paths begin; expected --sweep with direct_path_q, direct_path_k or "
          "direct_path_v");
  require_grid_file(options.out);
}

void add_prompts(CLI::App& app, PatchOptions& options, OneOf& inputs) {
  static constexpr auto* kGroup = "Prompts, one of these pairs or a file";
  auto* clean = app.add_option("--clean", options.clean, "the prompt that is answered right");
  auto* corrupted =
      app.add_option("--corrupted", options.corrupted, "the same without what the answer hangs on");
  auto* clean_tokens = add_integers(app, "--clean-tokens", options.clean_tokens, "the same as token ids");
  auto* corrupted_tokens =
      add_integers(app, "--corrupted-tokens", options.corrupted_tokens, "the same as token ids");
  auto* pairs = app.add_option("--pairs", options.pairs,
                               "many pairs: JSON lines or CSV with clean, corrupted, answers, against and "
                               "places");
  clean->option_text("T")->needs(corrupted);
  corrupted->option_text("T")->needs(clean);
  clean_tokens->needs(corrupted_tokens);
  corrupted_tokens->needs(clean_tokens);
  pairs->option_text(kFileWord);
  for (auto* option : {clean, corrupted, clean_tokens, corrupted_tokens, pairs}) option->group(kGroup);
  app.add_option("--prepend-bos", options.prepend_bos,
                 "yes or no: whether texts get a BOS token (default: as the model wants)")
      ->option_text("yes|no")
      ->check(CLI::IsMember({"yes", "no"}))
      ->group(kGroup);
  inputs = {clean, clean_tokens, pairs};
}

void add_scores(CLI::App& app, PatchOptions& options, PatchWords& words) {
  static constexpr auto* kGroup = "Scores";
  const auto texts = [&](const char* name, std::vector<std::string>& values, const char* text) {
    return app.add_option(name, values, text)->option_text("T")->allow_extra_args(false)->group(kGroup);
  };
  const auto ids = [&](const char* name, IntegerList& values, const char* text) {
    return add_integers(app, name, values, text)->group(kGroup);
  };
  auto* answer = texts("--answer", options.answers,
                       "the token that the clean prompt asks for; repeat for a set of which any will do");
  auto* against = texts("--against", options.against, "the token that it is held against, or a set");
  ids("--answer-token", options.answer_tokens, "the same as ids")->excludes(answer);
  ids("--against-token", options.against_tokens, "the same as ids")->excludes(against);
  std::vector<std::string> names;
  for (const MetricName& metric : metric_names()) names.emplace_back(metric.name);
  app.add_option("--metric", words.metrics,
                 fmt::format("what scores a run, separated by commas: {}; the divergences are from the clean "
                             "run (default: logit_difference, or logit where nothing is held against the "
                             "answer)",
                             fmt::join(names, ", ")))
      ->option_text("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(offering(names))
      ->group(kGroup);
  app.add_option("--position", options.position,
                 "where logits are read: a column (negative from the end), last, or a place's name in the "
                 "file of pairs (default: last, each prompt's last token)")
      ->option_text("P")
      ->group(kGroup);
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
                 "which may stand in other columns of the clean prompt")
      ->option_text("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(kGroup);
  std::vector<std::string> names;
  for (const auto& [name, with] : kWith) names.emplace_back(name);
  auto* with =
      app.add_option("--from", words.with,
                     "what is put in: the clean run's values, zero, the mean over all clean prompts of the "
                     "file, or a resampled one of these (default: clean)")
          ->option_text("WHAT")
          ->check(CLI::IsMember(names))
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
  app.add_option("--partial", options.partial,
                 "a file for what is done so far: Ctrl-C leaves it, the same command line goes on from it, "
                 "and it is gone when all is done")
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
  add_prompts(app, *options, inputs);
  add_scores(app, *options, *words);
  add_sweeps(app, *options, *words);
  add_outputs(app, *options);
  return [options, words, inputs] {
    require_one(inputs);
    options->sweeps = read_sweeps(words->sweeps);
    options->metrics.clear();
    for (const std::string& name : words->metrics) options->metrics.push_back(read_metric(name));
    if (!words->source.empty()) options->source = read_head(words->source);
    for (const auto& [name, with] : kWith) {
      if (name == words->with) options->with = with;
    }
    require(!options->noising || words->with != "clean",
            "--noising patches into the clean run; expected --from zero, mean or resampled with it, or none "
            "for the corrupted run's values");
    require(!options->seed || options->with == PatchWith::resampled,
            "--seed is of --from resampled; expected both or neither");
    require_fit(*options);
    return *options;
  };
}

}  // namespace hooked::cli
