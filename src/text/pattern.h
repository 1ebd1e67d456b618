#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/text/tokenizer.h"
#include "text/regex.h"

namespace hooked {

/// A part of a text: a match of a pattern, or what lies between two.
struct Match {
  TextSpan span;
  bool matches;
};

/// What a file looks for in a text: a string, or a regular expression.
class Pattern {
 public:
  static Pattern literal(std::string_view text);
  /// Throws std::invalid_argument with Oniguruma's reason.
  static Pattern regex(std::string_view expression);

  /// All of `text` as matches and what lies between them, in order.
  /// Throws TokenizerError when a regular expression backtracks too long.
  std::vector<Match> cut(std::string_view text) const;

 private:
  std::string literal_;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace hooked
