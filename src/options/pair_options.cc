// Options of commands that score pairs of prompts.
#include "options/pair_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "options/command.h"
#include "options/patch_names.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

constexpr std::array<std::pair<std::string_view, PatchWith>, 4> kWith{
    {{"zero", PatchWith::zero},
     {"mean_rows", PatchWith::mean_rows},
     {"mean_rows_and_positions", PatchWith::mean_rows_and_positions},
     {"resampled", PatchWith::resampled}}};

// Requires answers for the runs of one pair; pairs of a file may have their own.
void require_answers(const ScoredPairOptions& options) {
  if (!options.pairs.empty()) return;
  const bool answer = !options.answers.empty() || !options.answer_tokens.empty();
  const bool against = !options.against.empty() || !options.against_tokens.empty();
  require(answer || !options.metrics.empty(),
          "nothing says what is scored; expected --answer and --against, or --metric " +
              metrics_without_answer());
  for (const MetricKind kind : options.metrics) {
    const MetricName& metric = metric_name(kind);
    if (metric.needs_answer() && !answer)
      throw UsageError(
          fmt::format("--metric {} needs an answer; expected --answer or --answer-token", metric.name));
    if (metric.needs == MetricNeeds::against && !against)
      throw UsageError(fmt::format(
          "--metric {} needs what the answer is held against; expected --against or --against-token",
          metric.name));
  }
}

}  // namespace

void require(bool holds, const std::string& sentence) {
  if (!holds) throw UsageError(sentence);
}

std::vector<std::string> patch_with_names(std::string other_run) {
  std::vector<std::string> names{std::move(other_run)};
  for (const auto& [name, with] : kWith) names.emplace_back(name);
  return names;
}

bool takes_many_rows(PatchWith with) { return with != PatchWith::other_run && with != PatchWith::zero; }

PatchWith read_patch_with(std::string_view name) {
  for (const auto& [own, with] : kWith) {
    if (own == name) return with;
  }
  return PatchWith::other_run;
}

std::vector<MetricKind> read_metrics(const std::vector<std::string>& names) {
  std::vector<MetricKind> kinds;
  for (const std::string& name : names) kinds.push_back(read_metric(name));
  return kinds;
}

void require_scored(const ScoredPairOptions& options) {
  require_answers(options);
  for (std::size_t i = 0; i < options.metrics.size(); ++i) {
    if (std::count(options.metrics.begin(), options.metrics.end(), options.metrics[i]) > 1)
      throw UsageError(fmt::format("--metric: {} occurs twice; expected each metric once",
                                   metric_name(options.metrics[i]).name));
  }
}

void add_pairs(CLI::App& app, ScoredPairOptions& options, OneOf& inputs) {
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
  auto* bos = app.add_option("--prepend-bos", options.prepend_bos,
                             "yes or no: whether texts get a BOS token; file: what the model's files put "
                             "around them (default: that, and where they say nothing a BOS token for "
                             "causal models)");
  bos->option_text("yes|no|file")->check(CLI::IsMember({"yes", "no", "file"}))->group(kGroup);
  add_chat_options(app, options.chat, {clean_tokens, corrupted_tokens, bos});
  inputs = {clean, clean_tokens, pairs};
}

void add_scores(CLI::App& app, ScoredPairOptions& options, std::vector<std::string>& metrics) {
  static constexpr auto* kGroup = "Scores";
  const auto texts = [&](const char* name, std::vector<std::string>& values, const char* text) {
    return app.add_option(name, values, text)->option_text("T")->allow_extra_args(false)->group(kGroup);
  };
  const auto ids = [&](const char* name, IntegerList& values, const char* text) {
    return add_integers(app, name, values, text)->group(kGroup);
  };
  auto* answer = texts("--answer", options.answers,
                       "the token that the clean prompt asks for; repeat to accept any of a set");
  auto* against = texts("--against", options.against, "the token that it is held against, or a set");
  ids("--answer-token", options.answer_tokens, "the same as ids")->excludes(answer);
  ids("--against-token", options.against_tokens, "the same as ids")->excludes(against);
  std::vector<std::string> names;
  for (const MetricName& metric : metric_names()) names.emplace_back(metric.name);
  app.add_option("--metric", metrics,
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

}  // namespace hooked::cli
