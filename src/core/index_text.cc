#include "core/index_text.h"

#include "core/parse_integer.h"

namespace hooked {
namespace {

using Kind = IndexText::Kind;

std::optional<IndexText> read_range(std::string_view text, std::size_t colon) {
  IndexText range;
  const std::string_view begin = text.substr(0, colon), end = text.substr(colon + 1);
  range.begin = parse_integer(begin);
  range.end = parse_integer(end);
  if (range.begin.has_value() == begin.empty() || range.end.has_value() == end.empty()) return std::nullopt;
  return range;
}

}  // namespace

std::optional<IndexText> read_index(std::string_view text) {
  if (text == "last") return IndexText{.kind = Kind::last};
  if (const auto colon = text.find(':'); colon != std::string_view::npos) return read_range(text, colon);
  IndexText places{.kind = Kind::one};
  while (true) {
    const auto plus = text.find('+');
    const auto number = parse_integer(text.substr(0, plus));
    if (!number) return std::nullopt;
    places.numbers.push_back(*number);
    if (plus == std::string_view::npos) return places;
    places.kind = Kind::list;
    text.remove_prefix(plus + 1);
  }
}

}  // namespace hooked
