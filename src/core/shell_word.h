#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "core/replaced.h"

namespace hooked {

/// `text` as one word of a POSIX shell, in single quotes: nothing in it has a meaning there.
inline std::string shell_quoted(std::string_view text) {
  // A quote ends the quoted part, stands outside, and begins the next.
  return "'" + replaced(text, {{'\'', R"('\'')"}}) + "'";
}

/// The same, without quotes where a shell needs none.
inline std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+@%:,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  return shell_quoted(text);
}

}  // namespace hooked
