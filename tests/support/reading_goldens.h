#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "tests/support/recorded.h"

namespace hooked {

/// A call of one of TransformerLens's methods, by tests/golden/reading/index.json.
struct ReadingCall {
  std::string method;
  Json arguments;
};

/// A model of that index.
struct ReadingGolden {
  std::string model;                                           ///< the folder of what was recorded
  std::filesystem::path folder;                                ///< of the model itself
  std::map<std::string, std::vector<std::string>> processing;  ///< steps behind `raw` and `folded`
  std::map<std::size_t, std::vector<std::string>> labels;      ///< theirs, by call
  /// By file: calls of which nothing was recorded, with the reason.
  std::map<std::string, std::map<std::size_t, std::string>> absent;

  /// What `raw` or `folded` holds: inputs, and results by the number of their call.
  RecordedTensors read(const std::string& file) const;
};

/// Every call, in the order of the index.
const std::vector<ReadingCall>& reading_calls();
/// Every model, in the order of the index.
const std::vector<ReadingGolden>& reading_goldens();

}  // namespace hooked
