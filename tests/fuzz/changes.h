#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

/// `text` with one to four random changes: one of `pieces` put in, a few bytes left out, a part of it put in
/// once more. It keeps the first `kept` bytes.
inline std::string with_random_changes(std::string text, const std::vector<std::string>& pieces,
                                       std::mt19937& random, std::size_t kept = 0) {
  for (auto changes = random() % 4 + 1; changes > 0; --changes) {
    const auto at = kept + random() % (text.size() - kept + 1);
    switch (random() % 3) {
      case 0:
        text.insert(at, pieces[random() % pieces.size()]);
        break;
      case 1:
        text.erase(at, random() % 9);
        break;
      default:
        text.insert(at, std::string(text.substr(random() % (text.size() + 1), random() % 40)));
    }
  }
  return text;
}

/// What JSON is made of, and numbers at the ends of their ranges.
inline const std::vector<std::string>& json_pieces() {
  static const std::vector<std::string> pieces = {"{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ":",
                                                  ",",
                                                  "\"",
                                                  "\\",
                                                  "\\u0000",
                                                  "\n",
                                                  "\xE2\x82",
                                                  "null",
                                                  "true",
                                                  "-1",
                                                  "0",
                                                  "1e999",
                                                  "1e300",
                                                  "0.5",
                                                  "18446744073709551615",
                                                  "9223372036854775807",
                                                  "-9223372036854775808",
                                                  "{}",
                                                  "[]",
                                                  "\"\""};
  return pieces;
}

}  // namespace hooked
