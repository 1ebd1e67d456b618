#include <fmt/format.h>

#include <algorithm>

#include "hooked/core/error.h"
#include "tests/combinations/comparison.h"
#include "tests/combinations/points.h"
#include "tests/combinations/refusals.h"

namespace hooked::combinations {
namespace {

void compare(const Subject& subject, Comparison& comparison) {
  switch (subject.combination().consumer) {
    case Consumer::sweep:
      return compare_sweep(subject, comparison);
    case Consumer::generation:
      return compare_generation(subject, comparison);
    case Consumer::read:
    case Consumer::edit:
    case Consumer::file:
      return compare_run(subject, comparison);
    case Consumer::estimates:
      return compare_estimates(subject, comparison);
    case Consumer::gradients:
      return compare_gradients(subject, comparison);
    case Consumer::attribution:
    case Consumer::lens:
    case Consumer::head_scores:
      return compare_readings(subject, comparison);
    case Consumer::edges:
      return compare_edges(subject, comparison);
    case Consumer::circuits:
      return compare_circuits(subject, comparison);
  }
}

/// Whether the model has all points: processing may take some away.
bool has_points(const Combination& c, const ModelConfig& config) {
  const auto has = [&](const Where& where) { return !layers_of(where, config).empty(); };
  const auto changes = [&](const std::vector<Change>& all) {
    return std::ranges::all_of(all, [&](const Change& change) { return has(change.where); });
  };
  return std::ranges::all_of(c.reads, has) && changes(c.changes) && changes(c.generation.prompt_changes) &&
         changes(c.generation.new_token_changes) && has({.path = c.sweep.path});
}

Outcome compared_with(const Subject& subject) {
  const Combination& combination = subject.combination();
  if (!has_points(combination, subject.config())) return {};
  Comparison comparison;
  const auto holds = [&](const Refusal& row) { return row.holds(combination, subject.config()); };
  try {
    compare(subject, comparison);
  } catch (const Error& error) {
    const std::string_view text = error.what();
    for (const Refusal& row : refusals()) {
      if (text.find(row.words) != text.npos && holds(row)) return {.refused = std::string(row.because)};
    }
    return {.difference = fmt::format("refused, and no row of the table says why: {}", text)};
  } catch (const std::exception& error) {
    return {.difference = fmt::format("threw what is not an Error: {}", error.what())};
  }
  for (const Refusal& row : refusals()) {
    if (row.always && comparison.outcome().difference.empty() && holds(row)) {
      comparison.differs(fmt::format("not refused: {}", row.because));
    }
  }
  return comparison.outcome();
}

}  // namespace

Outcome compared(const Combination& combination) {
  try {
    return compared_with(Subject(combination));
  } catch (const Undecided&) {
    return {.refused = "experts of equal weight"};
  }
}

}  // namespace hooked::combinations
