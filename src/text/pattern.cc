#include "text/pattern.h"

namespace hooked {

Pattern Pattern::literal(std::string_view text) {
  // An empty string is found between all characters, by the rules of regular expressions.
  if (text.empty()) return regex("");
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

Pattern Pattern::regex(std::string_view expression) {
  Pattern pattern;
  pattern.regex_ = std::make_shared<const Regex>(expression);
  return pattern;
}

std::vector<Match> Pattern::cut(std::string_view text) const {
  std::vector<Match> parts;
  std::size_t end = 0;
  const auto add = [&](TextSpan span) {
    if (end != span.begin) parts.push_back({{end, span.begin}, false});
    parts.push_back({span, true});
    end = span.end;
  };
  if (text.empty()) return parts;
  if (regex_) {
    regex_->for_each_match(text, add);
  } else {
    for (auto at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, end)) {
      add({at, at + literal_.size()});
    }
  }
  if (end != text.size()) parts.push_back({{end, text.size()}, false});
  return parts;
}

}  // namespace hooked
