#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "hooked/text/tokenizer.h"

namespace hooked {

/// A tokenizer of the golden files: a family's name, its tokenizer.json and what that describes.
struct GoldenTokenizer {
  std::string family;
  std::string json;
  Tokenizer tokenizer;
};

/// All tokenizers of tests/text/files that have a tokenizer.json, by family.
inline std::vector<GoldenTokenizer> golden_tokenizers() {
  std::vector<GoldenTokenizer> found;
  for (const auto& entry : std::filesystem::directory_iterator(HOOKED_SOURCE_DIR "/tests/text/files")) {
    if (entry.path().extension() != ".json" || entry.path().stem() == "texts") continue;
    const auto golden = nlohmann::ordered_json::parse(std::ifstream(entry.path()));
    if (golden["tokenizer"].is_null()) continue;
    auto json = golden["tokenizer"].dump();
    auto tokenizer = Tokenizer::parse(json);
    found.push_back({entry.path().stem().string(), std::move(json), std::move(tokenizer)});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.family < b.family; });
  return found;
}

}  // namespace hooked
