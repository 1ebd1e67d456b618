// The methods of Python's str.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/jinja/arguments.h"
#include "text/jinja/formatting.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/unicode/letter_case.h"
#include "text/unicode/unicode.h"

namespace hooked::text::jinja {
namespace {

constexpr auto kNowhere = std::string_view::npos;

template <Side side>
Value strip(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "strip", arguments, {"chars"});
  const auto characters = given.text(0);
  machine.step(1 + self.text()->size() * (characters ? 1 + characters->size() / 32 : 1) / 32);
  return machine.text(std::string(stripped(*self.text(), side, characters)));
}

template <Case which>
Value cased(Machine& machine, const Value& self, const Arguments& arguments) {
  (void)Bound(machine, "a change of case", arguments, {});
  machine.charge(self.text()->size());
  return machine.text(in_case(*self.text(), which));
}

// The words between white space, at most `limit` + 1 of them unless `limit` is negative.
std::vector<std::string_view> words_of(std::string_view text, std::int64_t limit, bool from_right) {
  std::vector<std::string_view> words;
  while (true) {
    text = stripped(text, from_right ? Side::right : Side::left);
    if (text.empty()) break;
    if (limit >= 0 && static_cast<std::int64_t>(words.size()) == limit) {
      words.push_back(text);
      break;
    }
    std::size_t begin = 0, end = text.size(), last_space_end = 0;
    bool found = false;
    for (std::size_t at = 0; at < text.size();) {
      const auto c = *first_char(text.substr(at));
      if (is_python_space(c.code_point)) {
        if (!from_right) {
          end = at;
          found = true;
          break;
        }
        last_space_end = at + c.bytes;
      }
      at += c.bytes;
    }
    if (from_right) begin = last_space_end;
    words.push_back(text.substr(begin, end - begin));
    if (from_right ? begin == 0 : !found) break;
    text = from_right ? text.substr(0, begin) : text.substr(end);
  }
  if (from_right) std::ranges::reverse(words);
  return words;
}

std::size_t find_last(std::string_view text, std::string_view part) {
  return text.rfind(part);  // called only after the work was counted as the product
}

template <bool from_right>
Value split(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "split", arguments, {"sep", "maxsplit"});
  const auto separator = given.text(0);
  const auto limit = given.integer(1, -1);
  std::string_view text = *self.text();
  std::vector<std::string_view> parts;
  if (!separator) {
    // From the right, each word costs a walk through the rest of the text.
    machine.step(1 + (from_right ? text.size() * (1 + text.size() / 64) : text.size() / 16));
    parts = words_of(text, limit, from_right);
  } else if (separator->empty()) {
    machine.fail("split is given an empty separator; expected a text");
  } else if (from_right) {
    machine.step(1 + text.size() * separator->size() / 16);
    while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
      const auto at = find_last(text, *separator);
      if (at == kNowhere) break;
      parts.push_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    }
    parts.push_back(text);
    std::ranges::reverse(parts);
  } else {
    machine.read(text.size());
    while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
      const auto at = find_in(text, *separator);
      if (at == kNowhere) break;
      parts.push_back(text.substr(0, at));
      text = text.substr(at + separator->size());
    }
    parts.push_back(text);
  }
  std::vector<Value> items;
  for (const auto part : parts) {
    machine.charge(64);
    items.push_back(machine.text(std::string(part)));
  }
  return machine.list(std::move(items));
}

Value splitlines(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "splitlines", arguments, {"keepends"});
  machine.read(self.text()->size());
  std::vector<Value> items;
  for (const auto line : lines_of(*self.text(), given.truth(0, false))) {
    machine.charge(64);
    items.push_back(machine.text(std::string(line)));
  }
  return machine.list(std::move(items));
}

template <bool from_right>
Value partition(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "partition", arguments, {"sep"});
  const auto separator = given.required_text(0);
  if (separator.empty()) machine.fail("partition is given an empty separator; expected a text");
  const std::string_view text = *self.text();
  machine.step(1 + text.size() * (from_right ? separator.size() : 1) / 16);
  const auto at = from_right ? find_last(text, separator) : find_in(text, separator);
  std::vector<Value> parts;
  if (at == kNowhere) {
    parts = {machine.text(""), machine.text(""), machine.text("")};
    parts[from_right ? 2 : 0] = self;
  } else {
    parts = {machine.text(std::string(text.substr(0, at))), machine.text(separator),
             machine.text(std::string(text.substr(at + separator.size())))};
  }
  return machine.list(std::move(parts), ListKind::tuple);
}

// The part of a text that the optional bounds of find, startswith and others select, and where it begins.
std::pair<std::string_view, std::size_t> part_between(Machine& machine, std::string_view text,
                                                      const Value* begin, const Value* end) {
  if (!begin && !end) return {text, 0};
  const auto size = static_cast<std::int64_t>(count_characters(text));
  const auto bound = [&](const Value* value, std::int64_t otherwise) {
    if (!value || value->is<None>()) return otherwise;
    const auto number = integer_of(*value);
    if (!number) machine.fail(fmt::format("a bound is {}; expected an integer", type_name(*value)));
    return *number < 0 ? std::max<std::int64_t>(0, std::max(*number, -size) + size) : *number;
  };
  const auto first = bound(begin, 0), last = std::min(bound(end, size), size);
  if (first > size || last < first) return {{}, kNowhere};
  const auto from = byte_of_character(text, static_cast<std::size_t>(first));
  const auto to = byte_of_character(text, static_cast<std::size_t>(last));
  return {text.substr(from, to - from), from};
}

template <bool at_end>
Value has_affix(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, at_end ? "endswith" : "startswith", arguments, {"prefix", "start", "end"});
  const auto [part, at] = part_between(machine, *self.text(), given[1], given[2]);
  machine.read(self.text()->size());
  const auto has = [&, text = part, place = at](const Value& affix) {
    require_defined(machine, affix);
    if (!affix.text())
      machine.fail(fmt::format("startswith and endswith are given {}; expected a text or a tuple of texts",
                               type_name(affix)));
    if (place == kNowhere) return false;
    return at_end ? text.ends_with(*affix.text()) : text.starts_with(*affix.text());
  };
  const Value& affixes = given.required(0);
  if (!affixes.list(ListKind::tuple)) return has(affixes);
  return std::ranges::any_of(affixes.list()->items, has);
}

enum class Missing : std::uint8_t { minus_one, error };

template <bool from_right, Missing missing>
Value find(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "find and index", arguments, {"sub", "start", "end"});
  const auto part = given.required_text(0);
  const auto [text, begin] = part_between(machine, *self.text(), given[1], given[2]);
  machine.step(1 + text.size() * (from_right ? part.size() + 1 : 1) / 16);
  const auto at = begin == kNowhere ? kNowhere : from_right ? find_last(text, part) : find_in(text, part);
  if (at != kNowhere) {
    return static_cast<std::int64_t>(count_characters(std::string_view(*self.text()).substr(0, begin + at)));
  }
  if (missing == Missing::error) machine.fail("index looks for a text that is not in the text");
  return std::int64_t{-1};
}

Value count(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "count", arguments, {"sub", "start", "end"});
  const auto part = given.required_text(0);
  const auto [text, begin] = part_between(machine, *self.text(), given[1], given[2]);
  machine.read(text.size());
  if (begin == kNowhere) return std::int64_t{0};
  if (part.empty()) return static_cast<std::int64_t>(count_characters(text)) + 1;
  std::int64_t found = 0;
  for (auto at = find_in(text, part); at != kNowhere; at = find_in(text, part, at + part.size())) ++found;
  return found;
}

Value replace(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "replace", arguments, {"old", "new", "count"});
  return machine.text(
      replaced(machine, *self.text(), given.required_text(0), given.required_text(1), given.integer(2, -1)));
}

Value join(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "join", arguments, {"iterable"});
  std::string joined;
  bool first = true;
  for (const auto& item : items_of(machine, given.required(0))) {
    require_defined(machine, item);
    if (!item.text())
      machine.fail(fmt::format("join is given a list with {}; expected texts", type_name(item)));
    machine.charge(item.text()->size() + self.text()->size());
    if (!std::exchange(first, false)) joined += *self.text();
    joined += *item.text();
  }
  return machine.text(std::move(joined));
}

template <bool at_end>
Value without_affix(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, at_end ? "removesuffix" : "removeprefix", arguments, {"affix"});
  const auto affix = given.required_text(0);
  const std::string_view text = *self.text();
  if (!(at_end ? text.ends_with(affix) : text.starts_with(affix))) return self;
  return machine.text(
      std::string(at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size())));
}

// Whether a text is not empty and all its characters are of a kind.
template <bool (*is_of_kind)(char32_t)>
Value all_are(Machine& machine, const Value& self, const Arguments& arguments) {
  (void)Bound(machine, "a question about characters", arguments, {});
  machine.read(self.text()->size());
  bool all = !self.text()->empty();
  for_each_character(*self.text(), [&](char32_t c, std::string_view) { all = all && is_of_kind(c); });
  return all;
}

// Whether all cased characters have this case, and there is at least one.
template <bool upper>
Value is_in_case(Machine& machine, const Value& self, const Arguments& arguments) {
  (void)Bound(machine, "isupper and islower", arguments, {});
  machine.read(self.text()->size());
  bool some = false, all = true;
  for_each_character(*self.text(), [&](char32_t c, std::string_view) {
    const bool this_case = upper ? is_upper(c) : is_lower(c);
    some |= this_case;
    all = all && (this_case || !is_cased(c));
  });
  return some && all;
}

enum class Place : std::uint8_t { left, right, center };

template <Place place>
Value padded(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "ljust, rjust and center", arguments, {"width", "fillchar"});
  given.required(0);
  const auto fill = given.text(1).value_or(" ");
  if (count_characters(fill) != 1) machine.fail("a text is filled up with one character; got another number");
  const auto length = *length_of(machine, self);
  const auto missing = std::max<std::int64_t>(0, given.integer(0, 0) - length);
  // If the width is odd, Python's center() puts the extra blank on the left.
  const auto width = length + missing;
  const auto before = place == Place::left    ? 0
                      : place == Place::right ? missing
                                              : missing / 2 + (missing & width & 1);
  const auto filled = [&](std::int64_t times) {
    return *arithmetic(machine, Arithmetic::multiply, machine.text(fill), times).text();
  };
  return machine.text(filled(before) + *self.text() + filled(missing - before));
}

Value zfill(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "zfill", arguments, {"width"});
  given.required(0);
  const auto missing = std::max<std::int64_t>(0, given.integer(0, 0) - *length_of(machine, self));
  const auto zeros = *arithmetic(machine, Arithmetic::multiply, machine.text("0"), missing).text();
  const auto& text = *self.text();
  const bool sign = text.starts_with('+') || text.starts_with('-');
  return machine.text(text.substr(0, sign ? 1 : 0) + zeros + text.substr(sign ? 1 : 0));
}

Value format(Machine& machine, const Value& self, const Arguments& arguments) {
  return machine.text(brace_format(machine, *self.text(), arguments));
}

bool is_digit(char32_t c) {
  return is_decimal_digit(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 ||
         (c >= 0x2070 && c <= 0x2089 && text::is_number(c)) || (c >= 0x2460 && c <= 0x2468);
}
bool is_letter_or_number(char32_t c) { return is_letter(c) || text::is_number(c); }
bool is_white(char32_t c) { return is_python_space(c); }
bool is_some_letter(char32_t c) { return is_letter(c); }
bool is_some_decimal(char32_t c) { return is_decimal_digit(c); }
bool is_some_number(char32_t c) { return text::is_number(c); }

constexpr MethodRow kTextMethods[] = {
    {"capitalize", cased<Case::capitalize>},
    {"casefold", nullptr},
    {"center", padded<Place::center>},
    {"count", count},
    {"encode", nullptr},
    {"endswith", has_affix<true>},
    {"expandtabs", nullptr},
    {"find", find<false, Missing::minus_one>},
    {"format", format},
    {"format_map", nullptr},
    {"index", find<false, Missing::error>},
    {"isalnum", all_are<is_letter_or_number>},
    {"isalpha", all_are<is_some_letter>},
    {"isascii", nullptr},
    {"isdecimal", all_are<is_some_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isidentifier", nullptr},
    {"islower", is_in_case<false>},
    {"isnumeric", all_are<is_some_number>},
    {"isprintable", nullptr},
    {"isspace", all_are<is_white>},
    {"istitle", nullptr},
    {"isupper", is_in_case<true>},
    {"join", join},
    {"ljust", padded<Place::left>},
    {"lower", cased<Case::lower>},
    {"lstrip", strip<Side::left>},
    {"maketrans", nullptr},
    {"partition", partition<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace},
    {"rfind", find<true, Missing::minus_one>},
    {"rindex", find<true, Missing::error>},
    {"rjust", padded<Place::right>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<Side::right>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<false>},
    {"strip", strip<Side::both>},
    {"swapcase", cased<Case::swap>},
    {"title", cased<Case::title>},
    {"translate", nullptr},
    {"upper", cased<Case::upper>},
    {"zfill", zfill},
};

}  // namespace

const MethodRow* find_text_method(std::string_view name) {
  const auto found = std::ranges::find(kTextMethods, name, &MethodRow::name);
  return found == std::end(kTextMethods) ? nullptr : &*found;
}

}  // namespace hooked::text::jinja
