#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace hooked {

/// `text` with a text in the place of each of these characters: `{{'<', "&lt;"}, {'&', "&amp;"}}`.
inline std::string replaced(std::string_view text,
                            std::initializer_list<std::pair<char, std::string_view>> replacements) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto* found =
        std::ranges::find(replacements, c, [](const auto& replacement) { return replacement.first; });
    if (found == replacements.end())
      result += c;
    else
      result += found->second;
  }
  return result;
}

}  // namespace hooked
