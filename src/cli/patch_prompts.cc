// The prompts of `hooked patch` and `hooked circuits`: pairs, their answers, and what scores their runs.
#include "cli/patch_prompts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

#include "cli/caption.h"
#include "cli/input_options.h"
#include "cli/json_output.h"
#include "cli/text_notes.h"
#include "core/index_text.h"
#include "core/parse_integer.h"
#include "hooked/analysis/spelling.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "options/command.h"
#include "options/patch_names.h"

namespace hooked::cli {
namespace {

// The answers on the command line are for all pairs, except for pairs with answers of their own.
void add_answers(std::vector<PromptPair>& pairs, const ScoredPairOptions& options) {
  const auto fill = [&](std::vector<PromptToken> PromptPair::*field, const TokenChoice& given,
                        const std::string& option) {
    if (given.empty()) return;
    const std::vector<PromptToken> tokens = tokens_of(given);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!(pairs[i].*field).empty())
        throw UsageError(fmt::format("{}: pair {} of {} has its own; expected one of the two",
                                     given.texts.empty() ? option + "-token" : option, i, options.pairs));
      pairs[i].*field = tokens;
    }
  };
  fill(&PromptPair::answers, options.answers, "--answer");
  fill(&PromptPair::against, options.against, "--against");
}

// Turns each prompt into a user's message, in the model's chat template.
void put_into_chat(std::vector<PromptPair>& pairs, const ScoredPairOptions& options,
                   const Tokenizer& tokenizer) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (Prompt* prompt : {&pairs[i].clean, &pairs[i].corrupted}) {
      auto* text = std::get_if<std::string>(prompt);
      if (text == nullptr)
        throw UsageError(
            fmt::format("--chat: pair {} of {} has ids; expected prompts that are texts", i, options.pairs));
      *text = chat_texts({*text}, options.chat, tokenizer).front();
    }
  }
}

// A chat template writes the tokens around a text.
PrependBos around_pairs(const ScoredPairOptions& options) {
  return options.chat.chat ? PrependBos::nothing : prepend_bos_of(options.prepend_bos);
}

void note_blanks(const HookedTransformer& model, const std::vector<PromptPair>& pairs) {
  std::vector<std::string> texts;
  for (const PromptPair& pair : pairs) {
    for (const Prompt* prompt : {&pair.clean, &pair.corrupted}) {
      if (const auto* text = std::get_if<std::string>(prompt)) texts.push_back(*text);
    }
  }
  if (!texts.empty()) note_blank_at_end(model, texts);
}

// For texts, which a file of pairs may also have.
Json around_of(const HookedTransformer& model, const ScoredPairOptions& options) {
  const bool ids = !options.clean && options.pairs.empty();
  if (ids || !model.has_tokenizer()) return {};
  note_around(model, around_pairs(options));
  return around_json(model, around_pairs(options));
}

PromptPairs read_pairs(const HookedTransformer& model, const ScoredPairOptions& options) {
  if (!model.config().has_unembedding()) {
    throw HookError("prompts",
                    "this model has no unembedding and so no logits to score; expected a language model");
  }
  std::vector<PromptPair> pairs;
  if (!options.pairs.empty()) {
    pairs = read_prompt_pairs(options.pairs);
  } else if (options.clean) {
    pairs.push_back({.clean = *options.clean, .corrupted = options.corrupted.value()});
  } else {
    pairs.push_back({.clean = options.clean_tokens, .corrupted = options.corrupted_tokens});
  }
  add_answers(pairs, options);
  if (options.chat.chat)
    put_into_chat(pairs, options, model.tokenizer());
  else
    note_blanks(model, pairs);
  return {model, std::move(pairs), {.prepend_bos = around_pairs(options)}};
}

// A file's pairs decide the metrics if the command line does not.
std::vector<MetricKind> metric_kinds_of(const PromptPairs& pairs, const ScoredPairOptions& options) {
  if (!options.metrics.empty()) return options.metrics;
  const auto all_have = [&](std::vector<PromptToken> PromptPair::*field) {
    return std::all_of(pairs.pairs().begin(), pairs.pairs().end(),
                       [&](const PromptPair& pair) { return !(pair.*field).empty(); });
  };
  if (!all_have(&PromptPair::answers)) {
    throw UsageError(fmt::format(
        "nothing says what is scored: not all pairs of {} have answers; expected these, --answer, or "
        "--metric {}",
        options.pairs, metrics_without_answer()));
  }
  return {all_have(&PromptPair::against) ? MetricKind::logit_difference : MetricKind::logit};
}

bool compares_with_clean(MetricKind kind) { return metric_name(kind).needs == MetricNeeds::reference; }

}  // namespace

PatchPrompts::PatchPrompts(const HookedTransformer& model, const ScoredPairOptions& options)
    : model_(model.loaded()),
      file_(options.pairs),
      around_(around_of(model, options)),
      pairs_(read_pairs(model, options)),
      clean_edits_(read_edits(options.edits, model, pairs_.clean())),
      corrupted_edits_(read_edits(options.edits, model, pairs_.corrupted())),
      kinds_(metric_kinds_of(pairs_, options)),
      position_(options.position) {
  if (std::any_of(kinds_.begin(), kinds_.end(), compares_with_clean)) {
    reference_ =
        logits_at(model_, pairs_.clean(), {position(PromptSide::clean, position_)}, {.edits = clean_edits_});
  }
}

Position PatchPrompts::position(PromptSide side, const std::string& text) const {
  if (text == "last") return Position::last();
  if (const auto column = parse_integer(text)) return *column;
  return side == PromptSide::clean ? pairs_.clean_place(text) : pairs_.corrupted_place(text);
}

std::vector<std::string> PatchPrompts::each_position(PromptSide side, const std::string& text) const {
  const std::vector<std::string> names = pairs_.place_names();
  if (std::find(names.begin(), names.end(), text) != names.end()) return {text};
  const auto places = text == kAllPositions ? std::optional(IndexText()) : read_index(text);
  if (!places || places->kind == IndexText::Kind::one || places->kind == IndexText::Kind::last) return {text};
  const AxisContext context{Site::tokens, "--positions", {}};
  std::vector<std::string> columns;
  for (const auto column :
       resolve_places(places->as<AxisIndex>(), {context, Axis::pos, input(side).length()}))
    columns.push_back(std::to_string(column));
  return columns;
}

Metric PatchPrompts::metric(MetricKind kind, const Position& position) const {
  // By what a row of core/metrics.inc needs.
  const auto nothing = [](auto make) { return make(); };
  const auto answer = [&](auto make) { return make(pairs_.answers(), position); };
  const auto against = [&](auto make) { return make(pairs_.answers(), pairs_.against(), position); };
  const auto reference = [&](auto make) { return make(reference_, {position}); };
  switch (kind) {
#define HOOKED_METRIC(name, needs, ...) \
  case MetricKind::name:                \
    return needs(hooked::name);
#include "core/metrics.inc"
  }
  return loss();
}

std::vector<Metric> PatchPrompts::metrics(PromptSide side) const {
  const Position where = position(side, position_);
  std::vector<Metric> metrics;
  for (const MetricKind kind : kinds_) metrics.push_back(metric(kind, where));
  return metrics;
}

at::Tensor PatchPrompts::scores(PromptSide side) const {
  std::vector<at::Tensor> scores;
  for (const Metric& metric : metrics(side))
    scores.push_back(
        metric.score(model_, input(side), {.edits = edits(side)}).detach().to(at::kCPU, at::kDouble));
  return at::stack(scores);
}

std::vector<std::string> PatchPrompts::answer_notes() const {
  return spelling_notes(model_, pairs_.clean(), metrics(PromptSide::clean), {.edits = clean_edits_});
}

PatchSource PatchPrompts::source(PatchWith with, PromptSide side, SourceRun how) const {
  if (with == PatchWith::zero) return PatchSource::zero();
  ActivationCache run =
      model_
          .run(input(side), {.edits = edits(side), .capture = std::move(how.capture), .output = Output::none})
          .cache;
  if (with == PatchWith::mean_rows) return PatchSource::mean(std::move(run), MeanOver::rows);
  if (with == PatchWith::mean_rows_and_positions)
    return PatchSource::mean(std::move(run), MeanOver::rows_and_positions);
  if (with == PatchWith::resampled) return PatchSource::resampled(std::move(run), how.seed);
  return PatchSource::run(std::move(run), side == PromptSide::clean ? "the clean run" : "the corrupted run");
}

std::string PatchPrompts::text() const {
  const std::vector<PromptPair>& pairs = pairs_.pairs();
  const PromptPair& first = pairs.front();
  const std::string text =
      pairs.size() > 1
          ? fmt::format("{} pairs of {}", pairs.size(), std::filesystem::path(file_).filename().string())
          : fmt::format("clean {}, corrupted {}", prompt_words(first.clean), prompt_words(first.corrupted));
  const auto common = [&](std::vector<PromptToken> PromptPair::*field) {
    const bool all =
        std::ranges::all_of(pairs, [&](const PromptPair& pair) { return pair.*field == first.*field; });
    return all ? first.*field : std::vector<PromptToken>();
  };
  return text + answer_words(common(&PromptPair::answers), common(&PromptPair::against));
}

void PatchPrompts::add_tokens(PromptSide side, Json& json) const {
  cli::add_tokens(input(side), json);
  json["around"] = around_;
  const auto rows = [](const Input& prompt) { return rows_json(prompt.tokens, prompt.attention_mask); };
  json["clean_tokens"] = rows(pairs_.clean());
  json["corrupted_tokens"] = rows(pairs_.corrupted());
}

}  // namespace hooked::cli
