#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"

namespace hooked::text::jinja {

enum class TokenKind : std::uint8_t {
  text,             ///< the text between tags
  print_begin,      ///< `{{`
  print_end,        ///< `}}`
  statement_begin,  ///< `{%`
  statement_end,    ///< `%}`
  name,
  string,
  integer,
  real,
  symbol,  ///< an operator or a bracket
  end,     ///< of the template
};

struct Token {
  TokenKind kind;
  std::size_t at;    ///< the byte of the template where it begins
  std::string text;  ///< a string's value; otherwise as written
};

/// Cuts a template into tokens, as Jinja does with trim_blocks and lstrip_blocks. The newline after a
/// statement's or a comment's tag is removed, and so is white space before one on its line; `-` removes all
/// white space, `+` none. Throws TokenizerError.
std::vector<Token> tokens_of(const Source& source);

}  // namespace hooked::text::jinja
