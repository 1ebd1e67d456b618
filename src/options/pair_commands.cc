// The options of the commands that run pairs of prompts: patch and circuits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/parse_integer.h"
#include "options/command.h"
#include "options/option_table.h"
#include "options/patch_names.h"

namespace hooked::cli {
namespace {

/// What the parser fills in addition to the options, to be read when everything is parsed.
struct PairWords {
  std::vector<std::string> metrics;
  std::string with;
  std::vector<std::string> sweeps, hold;
  std::string source;
};

constexpr std::array<std::pair<std::string_view, PatchWith>, 4> kWith{
    {{"zero", PatchWith::zero},
     {"mean_rows", PatchWith::mean_rows},
     {"mean_rows_and_positions", PatchWith::mean_rows_and_positions},
     {"resampled", PatchWith::resampled}}};

// What places may be patched with; `other_run` is the name of the pair's other run.
Trait a_source(std::string other_run) {
  std::vector<std::string> names{std::move(other_run)};
  for (const auto& [name, with] : kWith) names.emplace_back(name);
  return one_of(names);
}

PatchWith read_patch_with(std::string_view name) {
  for (const auto& [own, with] : kWith) {
    if (own == name) return with;
  }
  return PatchWith::other_run;
}

// Whether it is computed from the prompts of a whole file.
bool takes_many_rows(PatchWith with) { return with != PatchWith::other_run && with != PatchWith::zero; }

std::pair<std::int64_t, std::int64_t> read_head(std::string_view text) {
  const auto dot = text.find('.');
  const auto layer = parse_integer(text.substr(0, dot));
  const auto head = dot == std::string_view::npos ? std::nullopt : parse_integer(text.substr(dot + 1));
  if (layer && head) return {*layer, *head};
  throw UsageError(
      fmt::format("--source: '{}' is not a head; expected LAYER.HEAD such as 9.6", printable(text)));
}

void add_pairs(CLI::App& app, ScoredPairOptions& options) {
  add_options(
      app, "Prompts, one of these pairs or a file",
      {{"--clean T", options.clean, "the prompt that is answered right", needs({"--corrupted"})},
       {"--corrupted T", options.corrupted, "the same without what the answer hangs on", needs({"--clean"})},
       {"--clean-tokens IDS", options.clean_tokens, "the same as token ids", needs({"--corrupted-tokens"})},
       {"--corrupted-tokens IDS", options.corrupted_tokens, "the same as token ids",
        needs({"--clean-tokens"})},
       {"--pairs F", options.pairs,
        "many pairs: JSON lines or CSV with clean, corrupted, answers, against and places"}});
  add_options(app, kCommonHeading, {prepend_bos_row(options.prepend_bos)});
  add_chat_options(app, options.chat, {"--clean-tokens", "--corrupted-tokens", "--prepend-bos"});
}

void add_scores(CLI::App& app, ScoredPairOptions& options, std::vector<std::string>& metrics) {
  std::vector<std::string> names;
  for (const MetricName& metric : metric_names()) names.emplace_back(metric.name);
  add_options(
      app, "Scores",
      {{"--answer T", options.answers.texts,
        "the token that the clean prompt asks for; repeat to accept any of a set"},
       {"--against T", options.against.texts, "the token that it is held against, or a set"},
       {"--answer-token IDS", options.answers.ids, "the same as ids", excludes({"--answer"})},
       {"--against-token IDS", options.against.ids, "the same as ids", excludes({"--against"})},
       {"--metric LIST", metrics,
        fmt::format("what scores a run, separated by commas: {}; the divergences are from the clean run "
                    "(default: logit_difference, or logit where nothing is held against the answer)",
                    fmt::join(names, ", ")),
        listed, offering(names)},
       {"--position P", options.position,
        "where logits are read: a column (negative from the end), last, or a place's name in the file of "
        "pairs (default: last, each prompt's last token)"}});
}

// Reads the words of the options that both commands have.
void read_words(auto& options, const PairWords& words) {
  for (const std::string& name : words.metrics) options.metrics.push_back(read_metric(name));
  options.with = read_patch_with(words.with);
}

// Something must be scored, and each metric once. One pair needs answers; pairs of a file may have their own.
void require_scored(const ScoredPairOptions& options, const std::vector<std::string>& metrics) {
  const bool answer = !options.answers.empty(), against = !options.against.empty();
  const bool of_a_file = !options.pairs.empty();
  require(of_a_file || answer || !options.metrics.empty(),
          "nothing says what is scored; expected --answer and --against, or --metric " +
              metrics_without_answer());
  for (const MetricKind kind : options.metrics) {
    const MetricName& metric = metric_name(kind);
    require(of_a_file || answer || !metric.needs_answer(),
            fmt::format("--metric {} needs an answer; expected --answer or --answer-token", metric.name));
    require(of_a_file || against || metric.needs != MetricNeeds::against,
            fmt::format("--metric {} needs what the answer is held against; expected --against or "
                        "--against-token",
                        metric.name));
  }
  require_each_once(metrics, "--metric", "metric");
}

void require_fit(const PatchOptions& options, const PairWords& words) {
  require(!options.noising || words.with != "clean",
          "--noising patches into the clean run; expected --from zero, a mean or resampled with it, or none "
          "for the corrupted run's values");
  require(!options.seed || options.with == PatchWith::resampled,
          "--seed is of --from resampled; expected both or neither");
  require_scored(options, words.metrics);
  require(!takes_many_rows(options.with) || !options.pairs.empty(),
          "--from mean_... and resampled are of the clean prompts of many pairs; expected --pairs");
  const bool paths = std::ranges::any_of(
      options.sweeps, [](const auto& sweep) { return sweep.kind == SweepChoice::Kind::direct_path; });
  require(!options.source || paths,
          "--source is where paths begin; expected --sweep with direct_path_q, direct_path_k or "
          "direct_path_v");
  require_grid_file(options.out);
  require(
      !options.scores || options.out.ends_with(".svg"),
      "--scores is of pictures; expected --out with a name that ends in .svg (other files hold the scores "
      "unless --rescaled is given)");
  require_ending("--partial", options.partial, kTensorEnding);
  require(options.out.empty() || options.out != options.partial,
          "--out and --partial name one file; expected two");
}

void require_fit(const CircuitsOptions& options, const PairWords& words) {
  require_scored(options, words.metrics);
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

}  // namespace

Reader define_patch(CLI::App& app) {
  auto options = std::make_shared<PatchOptions>();
  auto words = std::make_shared<PairWords>();
  add_model_options(app, options->model);
  add_options(app, {{"--replicas DEVICES", options->replicas,
                     "devices, as cuda:0,cuda:1 or cuda:all: the model is copied to each, and they share the "
                     "runs"}});
  add_pairs(app, *options);
  add_scores(app, *options, words->metrics);
  add_options(
      app, "What is patched",
      {{"--sweep LIST", words->sweeps,
        fmt::format("separated by commas: {}, or a site and its axes such as post:layer,d_mlp or, with "
                    "--dictionary, sae_acts_post:layer,feature",
                    fmt::join(sweep_names(), ", ")),
        listed, required, offering(sweep_names())},
       {"--source L.H", words->source, "the head where direct paths begin (default: every head)"},
       {"--layers LIST", options->layers, "only these layers and ranges, such as 0,3,-1 or 2:5"},
       {"--heads LIST", options->heads, "only these heads and ranges"},
       {"--positions LIST", options->positions,
        "only these columns and ranges (negative from the end), last, or names of places in the file of "
        "pairs, which may be in other columns of the clean prompt",
        listed},
       {"--from WHAT", words->with,
        "what is put in: the clean run's values, zero, the mean over all clean prompts of the file (by "
        "position, or over all positions as well), or a resampled one of these (default: clean)",
        a_source("clean")},
       {"--seed X", options->seed, "of --from resampled (default: 0)", needs({"--from"})},
       {"--noising", options->noising,
        "patch the corrupted run's values into the clean run instead of the other way round"}});
  add_edit_options(app, options->edits);
  add_dictionary_options(app, options->model);
  add_options(
      app, "Output",
      {{"--per-pair", options->per_pair, "the numbers of each pair instead of their mean"},
       {"--out F", options->out,
        "a file for the scores: .csv, .json, .svg (a heat map) or .safetensors; of several sweeps each has "
        "one, F with the sweep's name before the ending"},
       {"--rescaled", options->rescaled,
        "of --out: corrupted 0, clean 1, instead of the scores; a picture has this scale anyway",
        needs({"--out"})},
       {"--scores", options->scores, "of a picture: the scores themselves", needs({"--out"}),
        excludes({"--rescaled"})},
       force_row(options->force, {"--out"}),
       {"--partial F", options->partial,
        "a file (.safetensors) for what is done so far: Ctrl-C leaves it, the same command line continues "
        "from it, and it is gone when all is done"},
       json_row(options->json)});
  return [&app, options, words] {
    require_one(app, {"--clean", "--clean-tokens", "--pairs"});
    options->sweeps = read_sweeps(words->sweeps);
    read_words(*options, *words);
    if (!words->source.empty()) options->source = read_head(words->source);
    require_fit(*options, *words);
    return *options;
  };
}

Reader define_circuits(CLI::App& app) {
  auto options = std::make_shared<CircuitsOptions>();
  auto words = std::make_shared<PairWords>();
  add_model_options(app, options->model);
  add_pairs(app, *options);
  add_scores(app, *options, words->metrics);
  add_options(
      app, "Scores of parts, by gradients",
      {{"--edges", options->edges, "scores of what each part reads of each other, not of heads and MLPs"},
       {"--steps N", options->steps,
        "integrate over N runs between the two prompts' embeddings (default: one gradient)", at_least_one},
       {"--hold LIST", words->hold, "what passes no gradient: the scales of norms, attention patterns",
        listed, one_of({"norms", "patterns"})},
       {"--from WHAT", words->with,
        "what replaces a part: its value in the corrupted run, zero, the mean over all corrupted prompts of "
        "the file (by position, or over all positions as well), or a resampled one of these (default: "
        "corrupted)",
        a_source("corrupted")},
       {"--check N", options->check,
        "patch the N parts with the largest scores and N others, and say how well the scores predicted it",
        at_least_one},
       {"--seed X", options->seed,
        "of what is drawn: resampled prompts, checked parts, other sets (default: 0)"}});
  add_edit_options(app, options->edits);
  add_dictionary_options(app, options->model);
  add_options(
      app, "The circuit",
      {{"--top N", options->top, "the N parts with the largest scores, pruned", at_least_one},
       {"--threshold X", options->threshold, "all parts whose score has at least this size, pruned"},
       {"--greedy", options->greedy, "of edges: each leads into those before, from the logits on"},
       {"--circuit F", options->circuit, "the circuit of a file instead of a choice"},
       {"--save F", options->save, "writes the chosen circuit: .json"},
       {"--judge N", options->judge,
        "run the circuit alone and ablated, without each part, and N other sets of its size (0: none)",
        check(CLI::NonNegativeNumber)}});
  add_options(
      app, "Output",
      {{"--largest,--top-k N", options->top_k, "how many scores are shown (default: 20)", at_least_one},
       {"--out F", options->out, "writes all scores: .csv, .json, .svg (a heat map) or .safetensors"},
       force_row(options->force, {"--out", "--save"}),
       json_row(options->json)});
  return [&app, options, words] {
    require_one(app, {"--clean", "--clean-tokens", "--pairs"});
    read_words(*options, *words);
    for (const std::string& held : words->hold)
      (held == "norms" ? options->hold_norms : options->hold_patterns) = true;
    require_fit(*options, *words);
    return *options;
  };
}

}  // namespace hooked::cli
