#pragma once

#include <algorithm>
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

/// Throws TokenizerError naming `where` for a text that is not UTF-8.
void require_utf8(std::string_view text, const std::string& where);

/// Calls `visit(part)` for the parts of `text` between separators. A separator at the end begins no further
/// part.
template <class Visit>
void for_each_part(std::string_view text, char separator, Visit&& visit) {
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Calls `visit(line)` for each line, without its end.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for_each_part(text, '\n', [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line);
  });
}

/// Parses a text as an object. Throws TokenizerError naming `name`.
Json read_object(std::string_view text, std::string_view name);

}  // namespace hooked::text
