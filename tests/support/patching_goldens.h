#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/recorded.h"

namespace hooked {

/// Functions of which nothing was recorded.
struct PatchingException {
  std::set<std::string> files;      ///< `folded_padded`
  std::set<std::string> functions;  ///< `get_act_patch_direct_path.q`
  std::string kind;                 ///< `crash` or `wrong`
  std::string reason;               ///< in words
};

/// A model of tests/golden/patching/index.json.
struct PatchingGolden {
  std::string model;                                           ///< the folder of what was recorded
  std::filesystem::path folder;                                ///< of the model itself
  std::map<std::string, std::vector<std::string>> processing;  ///< steps behind `raw` and `folded`
  std::vector<PatchingException> exceptions;

  /// The exception of a function in a file, or null.
  const PatchingException* exception(const std::string& file, const std::string& function) const;
  /// What one of its files holds.
  RecordedTensors read(const std::string& file) const;
};

/// tests/golden/patching.
std::filesystem::path patching_folder();

/// Every model, in the order of the index.
const std::vector<PatchingGolden>& patching_goldens();

}  // namespace hooked
