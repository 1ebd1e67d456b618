#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/json.h"

namespace hooked::text {

/// What a file beside a tokenizer, or a text in one, may hold at the most.
inline constexpr std::uint64_t kSideFileBytes = std::uint64_t{16} << 20;

/// Whether there is something of that name, be it a link to nothing, which is an error when it is read.
bool is_there(const std::filesystem::path& file);

/// The text of a file. Throws TokenizerError for one that is too large or a Git LFS pointer, IoError.
std::string read_limited(const std::filesystem::path& file, std::uint64_t limit = kSideFileBytes);

/// The object that a text is. Throws TokenizerError naming `name`.
Json read_object(std::string_view text, std::string_view name);

}  // namespace hooked::text
