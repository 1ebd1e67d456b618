#include "text/pattern_reader.h"

#include <fmt/format.h>

#include <stdexcept>

namespace hooked {

Pattern read_pattern(const JsonNode& node) {
  node.require_object();
  if (const auto literal = node.member("String"); !literal.is_null()) return Pattern::literal(literal.text());
  const auto expression = node.member("Regex");
  if (expression.is_null()) node.refuse("has neither String nor Regex; expected one of them");
  try {
    return Pattern::regex(expression.text());
  } catch (const std::invalid_argument& reason) {
    expression.refuse(
        fmt::format("is a regular expression that cannot be compiled: {}; expected one of Oniguruma's "
                    "default syntax",
                    reason.what()));
  }
}

}  // namespace hooked
