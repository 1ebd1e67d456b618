#pragma once

#include <string_view>
#include <vector>

namespace hooked {

/// The parts of a text between `separator`: one more than there are separators. (std::views::split does not
/// compile with clang 14.)
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

}  // namespace hooked
