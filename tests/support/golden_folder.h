#pragma once

#include <filesystem>

namespace hooked {

/// A model folder of tests/golden (`cases/llama`) with its weights, where the build has put it.
inline std::filesystem::path golden_folder(const std::filesystem::path& name) {
  return std::filesystem::path(HOOKED_BINARY_DIR) / "goldens" / name;
}

}  // namespace hooked
