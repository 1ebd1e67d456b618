#include "core/text_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"
#include "hooked/core/error.h"

namespace hooked {

std::string_view utf8_of_bytes(std::string_view bytes, std::string_view where, std::int64_t first_line) {
  if (first_line == 1 && bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  if (const auto bad = first_invalid_byte(bytes)) {
    const std::string_view before = bytes.substr(0, *bad);
    const auto line_begin = before.rfind('\n') + 1;  // 0 if there is none
    throw CheckpointError(where,
                          fmt::format("line {}: byte {} of the line is not UTF-8; expected a text in UTF-8; "
                                      "convert the file, for instance with iconv",
                                      std::ranges::count(before, '\n') + first_line, *bad - line_begin));
  }
  return bytes;
}

std::string text_of_bytes(std::string_view bytes, std::string_view where, std::int64_t first_line) {
  bytes = utf8_of_bytes(bytes, where, first_line);
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\r' || i + 1 == bytes.size() || bytes[i + 1] != '\n') text += bytes[i];
  }
  return text;
}

std::vector<std::string> lines_of_bytes(std::string_view bytes, std::string_view where) {
  const std::string text = text_of_bytes(bytes, where);
  std::string_view rest = without_blank_end(text);
  std::vector<std::string> lines;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return lines;
}

std::string_view without_blank_end(std::string_view text) {
  const auto last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return {};
  const auto end = text.find('\n', last);
  return text.substr(0, end);
}

}  // namespace hooked
