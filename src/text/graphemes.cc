#include "text/graphemes.h"

#include <utf8proc.h>

#include "text/unicode.h"

namespace hooked {

std::vector<std::string_view> graphemes(std::string_view text) {
  std::vector<std::string_view> clusters;
  utf8proc_int32_t state = 0;
  utf8proc_int32_t previous = -1;
  std::size_t begin = 0;
  std::size_t at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const auto current = static_cast<utf8proc_int32_t>(c);
    if (previous >= 0 && utf8proc_grapheme_break_stateful(previous, current, &state)) {
      clusters.push_back(text.substr(begin, at - begin));
      begin = at;
    }
    previous = current;
    at += bytes.size();
  });
  if (begin < text.size()) clusters.push_back(text.substr(begin));
  return clusters;
}

}  // namespace hooked
