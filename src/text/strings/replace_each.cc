#include "text/strings/replace_each.h"

#include <array>

#include "text/unicode/unicode.h"

namespace hooked::text {

std::string replace_each(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  if (from.empty()) {
    // The empty string is found between all characters.
    result += to;
    for_each_character(text, [&](char32_t, std::string_view bytes) { result.append(bytes).append(to); });
    return result;
  }
  std::size_t begin = 0;
  for (auto at = text.find(from); at != std::string_view::npos; at = text.find(from, begin)) {
    result.append(text.substr(begin, at - begin)).append(to);
    begin = at + from.size();
  }
  return result.append(text.substr(begin));
}

std::string remove_blanks_of_english(std::string text) {
  static constexpr std::array<std::array<std::string_view, 2>, 11> kRules = {{{" .", "."},
                                                                              {" ?", "?"},
                                                                              {" !", "!"},
                                                                              {" ,", ","},
                                                                              {" ' ", "'"},
                                                                              {" n't", "n't"},
                                                                              {" 'm", "'m"},
                                                                              {" do not", " don't"},
                                                                              {" 's", "'s"},
                                                                              {" 've", "'ve"},
                                                                              {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) text = replace_each(text, from, to);
  return text;
}

}  // namespace hooked::text
