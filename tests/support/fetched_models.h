#pragma once

#include <filesystem>
#include <string>

namespace hooked {

/// Where scripts/fetch_models.sh puts trained models.
inline const std::filesystem::path kFetchedModels =
    std::filesystem::path(HOOKED_SOURCE_DIR) / "third_party/models";
inline const std::filesystem::path kSmolLM2 = kFetchedModels / "smollm2-135m-instruct.gguf";
inline const std::filesystem::path kMiniLM = kFetchedModels / "all-minilm-l6-v2";

/// Why a test of a fetched model must be skipped; empty if the model exists.
inline std::string why_absent(const std::filesystem::path& model) {
  if (std::filesystem::exists(model)) return {};
  return "third_party/models/" + model.filename().string() +
         " is not there; `bash scripts/fetch_models.sh` fetches it, or says why it cannot";
}

}  // namespace hooked
