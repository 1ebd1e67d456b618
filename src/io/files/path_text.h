#pragma once

#include <filesystem>
#include <string>

namespace hooked {

/// A path for messages: whole, however long, unless it has control characters or is not UTF-8; then escaped.
std::string path_text(const std::filesystem::path& path);

}  // namespace hooked
