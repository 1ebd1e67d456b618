#include <fmt/format.h>

#include "comparison.h"
#include "hooked/core/error.h"
#include "refusals.h"

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
    default:
      return;
  }
}

}  // namespace

Outcome compared(const Combination& combination) {
  const Subject subject(combination);
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
  }
  for (const Refusal& row : refusals()) {
    if (row.always && comparison.outcome().difference.empty() && holds(row)) {
      comparison.differs(fmt::format("not refused: {}", row.because));
    }
  }
  return comparison.outcome();
}

}  // namespace hooked::combinations
