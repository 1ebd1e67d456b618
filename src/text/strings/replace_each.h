#pragma once

#include <string>
#include <string_view>

namespace hooked::text {

/// `text` with each `from` replaced by `to`, from left to right. The empty string is found between all
/// characters.
std::string replace_each(std::string_view text, std::string_view from, std::string_view to);

/// Removes the blanks that cutting at punctuation puts into English text.
std::string remove_blanks_of_english(std::string text);

}  // namespace hooked::text
