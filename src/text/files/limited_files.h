#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/json.h"

namespace hooked::text {

/// Largest size of a file next to a tokenizer, or of a text in one.
inline constexpr std::uint64_t kSideFileBytes = std::uint64_t{16} << 20;

/// Whether something of that name exists, even a dangling link, which is an error when it is read.
bool is_there(const std::filesystem::path& file);

/// The text of a file. Throws TokenizerError if it is too large or a Git LFS pointer; IoError.
std::string read_limited(const std::filesystem::path& file, std::uint64_t limit = kSideFileBytes);

/// Parses a text as an object. Throws TokenizerError naming `name`.
Json read_object(std::string_view text, std::string_view name);

}  // namespace hooked::text
