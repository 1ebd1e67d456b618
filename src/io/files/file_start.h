#pragma once

#include <filesystem>
#include <string_view>

namespace hooked {

/// Whether the file's first bytes are those of `start`, by which formats are known. Throws IoError if it
/// cannot be read.
bool file_starts_with(const std::filesystem::path& file, std::string_view start);

}  // namespace hooked
