#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

/// Python's str() of a value, which is what a template prints. Undefined prints nothing.
std::string text_of(Machine& machine, const Value& value);

/// A float as Python prints it: the shortest digits that parse to the same number.
std::string float_text(double number);

/// How json.dumps() writes a value.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent = std::nullopt;
  std::string between_items = ", ", behind_key = ": ";
  bool sort_keys = false;
};
std::string json_of(Machine& machine, const Value& value, const JsonStyle& style);

/// Whether Python counts a character as white space (str.isspace).
bool is_python_space(char32_t character) noexcept;

/// The side from which a set of characters is stripped; the set is white space if it is empty.
enum class Side : std::uint8_t { left, right, both };
std::string_view stripped(std::string_view text, Side side,
                          const std::optional<std::string>& characters = {});

/// Case conversions, as Python's methods of these names do.
enum class Case : std::uint8_t { upper, lower, title, capitalize };
std::string in_case(std::string_view text, Case which);

/// The byte at which the character of that number begins; the end if there are fewer.
std::size_t byte_of_character(std::string_view text, std::size_t character) noexcept;

/// The lines of a text, as str.splitlines() cuts them.
std::vector<std::string_view> lines_of(std::string_view text);

/// The position of `part` in `text` from `begin` on, or npos. Time is linear.
std::size_t find_in(std::string_view text, std::string_view part, std::size_t begin = 0) noexcept;

/// `text` with `old` replaced, at most `count` times unless `count` is negative.
std::string replaced(Machine& machine, std::string_view text, std::string_view old, std::string_view with,
                     std::int64_t count);

/// Python's `format % values`: values are a tuple, or the only value. `%s`, `%d` and `%%` are read.
std::string percent_format(Machine& machine, std::string_view format, const Value& values);

/// Python's `format.format(...)`: `{}`, `{0}` and `{name}` are read, also with `:d`.
std::string brace_format(Machine& machine, std::string_view format, const Arguments& arguments);

}  // namespace hooked::text::jinja
