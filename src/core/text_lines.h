#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

/// The byte order mark.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The text in a file's bytes, without the byte order mark that Windows editors add. Throws CheckpointError
/// for bytes that are not UTF-8; `where` names the file. `first_line` is the number of the first line in the
/// file; only line 1 can begin with such a mark.
std::string_view utf8_of_bytes(std::string_view bytes, std::string_view where, std::int64_t first_line = 1);

/// The same with lines ended by LF alone.
std::string text_of_bytes(std::string_view bytes, std::string_view where, std::int64_t first_line = 1);

/// The lines of that text, without blank lines at the end.
std::vector<std::string> lines_of_bytes(std::string_view bytes, std::string_view where);

/// A text without the blank lines at its end.
std::string_view without_blank_end(std::string_view text);

}  // namespace hooked
