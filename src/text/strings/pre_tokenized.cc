#include "text/strings/pre_tokenized.h"

#include <algorithm>

namespace hooked::text {

std::vector<TextSpan> PreTokenized::parts_to_keep(std::vector<Match> matches, DelimiterBehavior behavior) {
  using Behavior = DelimiterBehavior;
  const bool backwards = behavior == Behavior::merged_with_next;
  const bool merges = backwards || behavior == Behavior::merged_with_previous;
  if (backwards) std::ranges::reverse(matches);
  std::vector<TextSpan> parts;
  parts.reserve(matches.size());
  bool previous = false;
  for (const auto& [span, matched] : matches) {
    if (matched && behavior == Behavior::removed) continue;
    const bool joins =
        (merges && matched && !previous) || (behavior == Behavior::contiguous && matched == previous);
    if (joins && !parts.empty()) {
      auto& last = parts.back();
      last = {std::min(last.begin, span.begin), std::max(last.end, span.end)};
    } else {
      parts.push_back(span);
    }
    previous = matched;
  }
  if (backwards) std::ranges::reverse(parts);
  return parts;
}

}  // namespace hooked::text
