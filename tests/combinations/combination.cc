#include "tests/combinations/combination.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace hooked::combinations {
namespace {

template <class Enum, std::size_t N>
std::string_view word(const std::array<std::string_view, N>& words, Enum value) {
  return words.at(static_cast<std::size_t>(value));
}

constexpr std::array<std::string_view, kConsumers> kConsumerNames{
    "read",        "edit", "sweep",       "generation", "file",  "estimates",
    "attribution", "lens", "head scores", "gradients",  "edges", "circuits"};

void add_axis(std::string& text, std::string_view axis, const Places& places) {
  if (places.given()) text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis, places.to_string());
}

std::string named_text(std::int64_t back) { return fmt::format("a named place, {} before the end", back); }

std::string changes_text(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) text += (text.empty() ? "" : ", ") + change.to_string();
  return text;
}

std::string less_text(const Less& less) {
  constexpr std::array<std::string_view, 4> kSplits{"", "after a prefix", "joined", "first columns"};
  std::string text;
  if (less.split != Split::none) text += fmt::format("{} at {}", word(kSplits, less.split), less.at);
  if (!less.first_columns.empty()) text += fmt::format(" {}", less.first_columns);
  if (less.start) text += fmt::format(" start_at_layer {}", *less.start);
  if (less.stop) text += fmt::format(" stop_at_layer {}", *less.stop);
  if (less.kept.given()) text += " keep.positions " + less.kept.to_string();
  if (less.kept_on_device) text += " keep.device";
  if (less.asked.given()) text += " logit_positions " + less.asked.to_string();
  return text;
}

std::string sweep_text(const Sweep& sweep) {
  std::string text = sweep.path + " over";
  for (const SweptPlaces& places : sweep.over) text += " " + places.to_string();
  text += fmt::format(" from {} by {}", sweep.source.to_string(), sweep.score.to_string());
  if (sweep.tokens_per_run != 1024) text += fmt::format(", {} tokens a run", sweep.tokens_per_run);
  if (sweep.resumed_after) {
    text += fmt::format(", resumed after {} runs{}", *sweep.resumed_after,
                        sweep.other_source ? " with another source" : "");
  }
  if (sweep.edges) text += ", of edges";
  if (sweep.estimate.query_key) text += ", query_key";
  if (sweep.estimate.drop_layers) text += ", drop_layers";
  if (sweep.estimate.steps > 0) {
    text += fmt::format(", {} steps over {}", sweep.estimate.steps,
                        sweep.estimate.over_inputs ? "inputs" : "activations");
  }
  return text;
}

bool sweeps(Consumer consumer) {
  return consumer == Consumer::sweep || consumer == Consumer::estimates || consumer == Consumer::edges ||
         consumer == Consumer::circuits || consumer == Consumer::gradients;
}

}  // namespace

bool Places::from_the_end() const {
  return std::ranges::any_of(numbers, [](auto n) { return n < 0; }) || begin.value_or(0) < 0 ||
         end.value_or(0) < 0 || (form == Form::range && !end && begin.value_or(0) < 0);
}

std::string Places::to_string() const {
  const auto open = [](const std::optional<std::int64_t>& n) { return n ? std::to_string(*n) : ""; };
  switch (form) {
    case Form::all:
      return "all";
    case Form::last:
      return "last";
    case Form::named:
      return named_text(numbers.front());
    case Form::range:
      return open(begin) + ":" + open(end);
    case Form::one:
    case Form::list:
      break;
  }
  return fmt::format("{}", fmt::join(numbers, "+"));
}

std::string Where::to_string() const {
  std::string text = path, indices;
  if (in_block) text = fmt::format("blocks.{}.{}", layer ? std::to_string(*layer) : "*", path);
  add_axis(indices, "batch", row);
  add_axis(indices, "pos", pos);
  add_axis(indices, "head", head);
  add_axis(indices, "key", key);
  return indices.empty() ? text : fmt::format("{}[{}]", text, indices);
}

std::string Change::to_string() const {
  constexpr std::array<std::string_view, 3> kSaid{"edit", "hook", "attached hook"};
  constexpr std::array<std::string_view, 6> kMade{"zero", "set", "add", "scale", "replace", "project_out"};
  std::string text = fmt::format("{} '{} {}", word(kSaid, said), where.to_string(), word(kMade, made));
  if (made == Made::set || made == Made::add || made == Made::scale) text += fmt::format(" {}", number);
  if (kept.given()) text += " by a cache of positions " + kept.to_string();
  return text + "'";
}

std::string Source::to_string() const {
  constexpr std::array<std::string_view, 6> kKinds{
      "the other run", "zero", "value", "mean_rows", "mean_rows_and_positions", "resampled"};
  std::string text(word(kKinds, kind));
  if (kind == Kind::value) text += fmt::format(" {}", number);
  if (!data_lengths.empty()) text += fmt::format(" of lengths {}", data_lengths);
  if (share_of_zero) text += fmt::format(" mixed with {} of zero", *share_of_zero);
  return text;
}

std::string Score::to_string() const {
  constexpr std::array<std::string_view, 8> kKinds{
      "logit",         "logit_difference",         "probability", "log_probability", "rank", "loss",
      "kl_divergence", "kl_divergence from itself"};
  std::string text(word(kKinds, kind));
  if (kind <= Kind::rank) {
    text += fmt::format(" {}{}{}", by_row ? "by row " : "", answers,
                        kind == Kind::logit_difference ? fmt::format(" - {}", against) : "");
  }
  if (column) text += fmt::format(" at {}", *column);
  if (named) text += " at " + named_text(*named);
  return text;
}

std::string SweptPlaces::to_string() const {
  if (last) return axis + "=last";
  if (named) {
    return fmt::format("{}={}{}", axis, named_text(*named),
                       named_from ? " from " + named_text(*named_from) : "");
  }
  if (into.empty()) return axis;
  std::string text = fmt::format("{}={}", axis, fmt::join(into, "+"));
  if (!from.empty()) text += fmt::format(" from {}", fmt::join(from, "+"));
  return text;
}

std::int64_t Combination::columns() const { return std::ranges::max(lengths); }

bool Combination::padded() const {
  return std::ranges::any_of(lengths, [&](std::int64_t length) { return length != columns(); });
}

std::string_view consumer_name(Consumer consumer) { return word(kConsumerNames, consumer); }

std::string describe(const Combination& c) {
  std::string text = fmt::format("{}: ", consumer_name(c.consumer));
  std::string model;
  for (const auto& [option, value] : c.options) {
    const reference::Option& row = reference::option_table().at(option);
    model += fmt::format("{}{}: {}", model.empty() ? "" : "; ", row.name, row.values.at(value).name);
  }
  text += fmt::format("model ({}), {} weights, seed {}", model.empty() ? "all defaults" : model,
                      c.processed ? "processed" : "raw", c.seed);
  text += fmt::format("\n  rows of {} tokens", c.lengths);
  if (c.padded()) {
    text += fmt::format(", padded on the {}", c.side == reference::Padding::left ? "left" : "right");
  }
  if (const std::string less = less_text(c.less); !less.empty()) text += "\n  less: " + less;
  if (!c.changes.empty()) text += "\n  changes: " + changes_text(c.changes);
  for (const Where& read : c.reads) text += "\n  read " + read.to_string();
  if (sweeps(c.consumer)) text += "\n  " + sweep_text(c.sweep);
  if (c.same_clean) text += "\n  the other run has the same tokens";
  if (c.consumer == Consumer::generation) {
    text += fmt::format("\n  {} new tokens", c.generation.tokens);
    if (!c.generation.prompt_changes.empty())
      text += ", prompt_edits: " + changes_text(c.generation.prompt_changes);
    if (!c.generation.new_token_changes.empty())
      text += ", new_token_edits: " + changes_text(c.generation.new_token_changes);
  }
  return text;
}

ModelConfig config_of(const Combination& combination) {
  reference::Choice choice(reference::option_table().size(), 0);
  for (const auto& [option, value] : combination.options) choice.at(option) = value;
  ModelConfig config = reference::make_case(choice).config;
  config.dtype = at::kDouble;
  return config;
}

}  // namespace hooked::combinations
