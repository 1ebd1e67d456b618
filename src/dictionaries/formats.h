#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "dictionaries/dictionary_plan.h"

namespace hooked {

/// A kind of files that dictionaries are read from.
struct DictionaryFormat {
  std::string_view name;
  std::string_view files;  ///< what it looks like, for errors
  /// Whether a path is of this kind, by the names of files and at most by what a small config says.
  bool (*recognises)(const std::filesystem::path& path);
  DictionaryPlans (*plan)(const std::filesystem::path& path);
};

/// SAELens's files, of version 6 and before.
inline constexpr const char* kSaeLensConfig = "cfg.json";
inline constexpr const char* kSaeLensWeights = "sae_weights.safetensors";

bool is_saelens(const std::filesystem::path& path);
DictionaryPlans plan_saelens(const std::filesystem::path& path);

}  // namespace hooked
