#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"

namespace hooked::text::jinja {

enum class TokenKind : std::uint8_t {
  text,             ///< what stands between tags
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
  std::string text;  ///< a string's value; as it is written otherwise
};

/// Cuts a template into tokens, as Jinja does with trim_blocks and lstrip_blocks: the newline behind a
/// statement's or a comment's tag goes, and so does white space before one on its line; `-` takes all white
/// space, `+` none. Throws TokenizerError.
std::vector<Token> tokens_of(const Source& source);

}  // namespace hooked::text::jinja
