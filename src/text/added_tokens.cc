#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace hooked {

void AddedTokens::add(AddedToken token) {
  if (token.special) special_.insert(token.id);
  auto& list = (token.normalized ? normalized_ : raw_)[static_cast<unsigned char>(token.content.front())];
  const auto place = std::find_if(list.begin(), list.end(), [&](const AddedToken& other) {
    return other.content.size() < token.content.size();
  });
  list.insert(place, std::move(token));
}

void AddedTokens::split_span(std::string_view text, TextSpan span, const ByFirstByte& tokens,
                             std::vector<Part>& parts) {
  std::size_t begin = span.begin;
  for (std::size_t at = span.begin; at < span.end;) {
    const auto rest = text.substr(at, span.end - at);
    const auto& list = tokens[static_cast<unsigned char>(rest.front())];
    const auto token = std::find_if(list.begin(), list.end(), [&](const AddedToken& candidate) {
      return rest.starts_with(candidate.content);
    });
    if (token == list.end()) {
      ++at;
      continue;
    }
    if (begin < at) parts.push_back({{begin, at}, -1});
    begin = at + token->content.size();
    parts.push_back({{at, begin}, token->id});
    at = begin;
  }
  if (begin < span.end) parts.push_back({{begin, span.end}, -1});
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text) const {
  std::vector<Part> raw;
  split_span(text, {0, text.size()}, raw_, raw);
  std::vector<Part> parts;
  for (const auto& part : raw) {
    if (part.id >= 0) {
      parts.push_back(part);
    } else {
      split_span(text, part.span, normalized_, parts);
    }
  }
  return parts;
}

}  // namespace hooked
