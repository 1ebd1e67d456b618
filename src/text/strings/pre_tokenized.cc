#include "text/strings/pre_tokenized.h"

#include <algorithm>

namespace hooked::text {

std::vector<TextSpan> PreTokenized::parts_to_keep(std::vector<Match> matches, DelimiterBehavior behavior) {
  std::vector<TextSpan> parts;
  parts.reserve(matches.size());
  bool previous = false;
  switch (behavior) {
    case DelimiterBehavior::removed:
      for (const auto& match : matches) {
        if (!match.matches) parts.push_back(match.span);
      }
      break;
    case DelimiterBehavior::isolated:
      for (const auto& match : matches) parts.push_back(match.span);
      break;
    case DelimiterBehavior::contiguous:
      for (const auto& match : matches) {
        if (match.matches == previous && !parts.empty()) {
          parts.back().end = match.span.end;
        } else {
          parts.push_back(match.span);
        }
        previous = match.matches;
      }
      break;
    case DelimiterBehavior::merged_with_previous:
      for (const auto& match : matches) {
        if (match.matches && !previous && !parts.empty()) {
          parts.back().end = match.span.end;
        } else {
          parts.push_back(match.span);
        }
        previous = match.matches;
      }
      break;
    case DelimiterBehavior::merged_with_next:
      for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
        if (match->matches && !previous && !parts.empty()) {
          parts.back().begin = match->span.begin;
        } else {
          parts.push_back(match->span);
        }
        previous = match->matches;
      }
      std::reverse(parts.begin(), parts.end());
      break;
  }
  return parts;
}

}  // namespace hooked::text
