// The methods of Python's str, dict, list and tuple.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
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
std::vector<std::string_view> words_of(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> words;
  while (!(text = stripped(text, Side::left)).empty()) {
    std::size_t end = 0;
    const bool rest = limit >= 0 && static_cast<std::int64_t>(words.size()) == limit;
    while (end < text.size()) {
      const auto c = *first_char(text.substr(end));
      if (!rest && is_python_space(c.code_point)) break;
      end += c.bytes;
    }
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

template <bool from_right>
Value split(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "split", arguments, {"sep", "maxsplit"});
  const auto separator = given.text(0);
  const auto limit = given.integer(1, -1);
  std::string_view text = *self.text();
  std::vector<std::string_view> parts;
  if (!separator) {
    if (from_right) machine.unsupported("rsplit without a separator");
    machine.step(1 + text.size() / 16);
    parts = words_of(text, limit);
  } else if (separator->empty()) {
    machine.fail("split is given an empty separator; expected a text");
  } else if (from_right) {
    machine.step(1 + text.size() * separator->size() / 16);
    while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
      const auto at = text.rfind(*separator);
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
  if (!arguments.positional.empty() || !arguments.named.empty())
    machine.unsupported("splitlines that keeps the ends");
  machine.read(self.text()->size());
  std::vector<Value> items;
  for (const auto line : lines_of(*self.text())) {
    machine.charge(64);
    items.push_back(machine.text(std::string(line)));
  }
  return machine.list(std::move(items));
}

template <bool at_end>
Value has_affix(Machine& machine, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() > 1) machine.unsupported("startswith and endswith with bounds");
  const Bound given(machine, at_end ? "endswith" : "startswith", arguments, {"prefix"});
  const std::string_view text = *self.text();
  machine.read(text.size());
  const auto has = [&](const Value& affix) {
    require_defined(machine, affix);
    if (!affix.text())
      machine.fail(fmt::format("startswith and endswith are given {}; expected a text or a tuple of texts",
                               type_name(affix)));
    return at_end ? text.ends_with(*affix.text()) : text.starts_with(*affix.text());
  };
  const Value& affixes = given.required(0);
  if (!affixes.list(ListKind::tuple)) return has(affixes);
  return std::ranges::any_of(affixes.list()->items, has);
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

Value format(Machine& machine, const Value& self, const Arguments& arguments) {
  return machine.text(brace_format(machine, *self.text(), arguments));
}

constexpr MethodRow kTextMethods[] = {
    {"capitalize", cased<Case::capitalize>},
    {"casefold", nullptr},
    {"center", nullptr},
    {"count", nullptr},
    {"encode", nullptr},
    {"endswith", has_affix<true>},
    {"expandtabs", nullptr},
    {"find", nullptr},
    {"format", format},
    {"format_map", nullptr},
    {"index", nullptr},
    {"isalnum", nullptr},
    {"isalpha", nullptr},
    {"isascii", nullptr},
    {"isdecimal", nullptr},
    {"isdigit", nullptr},
    {"isidentifier", nullptr},
    {"islower", nullptr},
    {"isnumeric", nullptr},
    {"isprintable", nullptr},
    {"isspace", nullptr},
    {"istitle", nullptr},
    {"isupper", nullptr},
    {"join", join},
    {"ljust", nullptr},
    {"lower", cased<Case::lower>},
    {"lstrip", strip<Side::left>},
    {"maketrans", nullptr},
    {"partition", nullptr},
    {"removeprefix", nullptr},
    {"removesuffix", nullptr},
    {"replace", replace},
    {"rfind", nullptr},
    {"rindex", nullptr},
    {"rjust", nullptr},
    {"rpartition", nullptr},
    {"rsplit", split<true>},
    {"rstrip", strip<Side::right>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<false>},
    {"strip", strip<Side::both>},
    {"swapcase", nullptr},
    {"title", cased<Case::title>},
    {"translate", nullptr},
    {"upper", cased<Case::upper>},
    {"zfill", nullptr},
};

Value dict_get(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "get", arguments, {"key", "default"});
  const Value& key = given.required(0);
  for (const auto& [name, value] : self.dict()->members) {
    if (equal(machine, name, key)) return value;
  }
  return given[1] ? *given[1] : None{};
}

Value dict_view(Machine& machine, const Value& self, ListKind kind) {
  std::vector<Value> items;
  machine.charge(self.dict()->members.size() * sizeof(Value));
  for (const auto& [key, value] : self.dict()->members) {
    items.push_back(kind == ListKind::keys     ? key
                    : kind == ListKind::values ? value
                                               : machine.list({key, value}, ListKind::tuple));
  }
  return machine.list(std::move(items), kind);
}

template <ListKind kind>
Value view(Machine& machine, const Value& self, const Arguments& arguments) {
  (void)Bound(machine, "items, keys and values", arguments, {});
  return dict_view(machine, self, kind);
}

constexpr MethodRow kDictMethods[] = {
    {"get", dict_get},
    {"items", view<ListKind::items>},
    {"keys", view<ListKind::keys>},
    {"values", view<ListKind::values>},
    {"copy", nullptr},
    {"fromkeys", nullptr},
    {"clear", nullptr, true},
    {"pop", nullptr, true},
    {"popitem", nullptr, true},
    {"setdefault", nullptr, true},
    {"update", nullptr, true},
};

constexpr MethodRow kTupleMethods[] = {{"count", nullptr}, {"index", nullptr}};

constexpr MethodRow kListMethods[] = {
    {"count", nullptr},         {"index", nullptr},       {"copy", nullptr},
    {"append", nullptr, true},  {"clear", nullptr, true}, {"extend", nullptr, true},
    {"insert", nullptr, true},  {"pop", nullptr, true},   {"remove", nullptr, true},
    {"reverse", nullptr, true}, {"sort", nullptr, true},
};

// Methods of numbers: none of them is supported.
constexpr MethodRow kNumberMethods[] = {
    {"as_integer_ratio", nullptr}, {"bit_count", nullptr}, {"bit_length", nullptr}, {"conjugate", nullptr},
    {"denominator", nullptr},      {"fromhex", nullptr},   {"hex", nullptr},        {"imag", nullptr},
    {"is_integer", nullptr},       {"numerator", nullptr}, {"real", nullptr},       {"to_bytes", nullptr}};

}  // namespace

const MethodRow* find_method(const Value& value, std::string_view name) {
  if (value.text()) return find_row(kTextMethods, name);
  if (value.dict()) return find_row(kDictMethods, name);
  if (value.list(ListKind::list)) return find_row(kListMethods, name);
  if (value.list(ListKind::tuple) || value.list(ListKind::range)) return find_row(kTupleMethods, name);
  if (is_number(value)) return find_row(kNumberMethods, name);
  return nullptr;
}

}  // namespace hooked::text::jinja
