#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/combinations/subject.h"

namespace hooked::combinations {

/// What is refused in a combination. An error counts as a refusal only if a row has its words and applies.
struct Refusal {
  std::string_view words;    ///< in the error
  std::string_view because;  ///< for the report
  bool (*holds)(const Combination& c, const ModelConfig& config);
  bool always = false;  ///< whether everything it applies to must be refused
};

/// The table: the rows of runs and those of analyses.
const std::vector<Refusal>& refusals();
std::vector<Refusal> refusals_of_runs();
std::vector<Refusal> refusals_of_analyses();

}  // namespace hooked::combinations
