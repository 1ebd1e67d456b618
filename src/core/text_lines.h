#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hooked {

/// The text in a file's bytes, without the byte order mark that Windows editors add, and with lines ended by
/// LF alone. Throws CheckpointError for bytes that are not UTF-8; `where` names the file.
std::string text_of_bytes(std::string_view bytes, std::string_view where);

/// The lines of that text, without blank lines at the end.
std::vector<std::string> lines_of_bytes(std::string_view bytes, std::string_view where);

/// A text without the blank lines at its end.
std::string_view without_blank_end(std::string_view text);

}  // namespace hooked
