#include "options/wrap.h"

#include <algorithm>

namespace hooked::cli {

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string lines;
  std::size_t length = 0;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    std::size_t passed = word.size() + 1;
    if (word.size() > columns) {
      passed = columns;
      while (passed > 1 && (static_cast<unsigned char>(word[passed]) & 0xC0) == 0x80)
        --passed;  // in a letter
      word = word.substr(0, passed);
    }
    if (length > 0 && length + 1 + word.size() > columns) {
      lines += '\n';
      length = 0;
    } else if (length > 0) {
      lines += ' ';
      ++length;
    }
    lines += word;
    length += word.size();
    text.remove_prefix(std::min(passed, text.size()));
  }
  return lines;
}

}  // namespace hooked::cli
