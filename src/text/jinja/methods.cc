#include "text/jinja/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/operators.h"

namespace hooked::text::jinja {
namespace {

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

Value copied(Machine& machine, const Value& self, const Arguments& arguments) {
  (void)Bound(machine, "copy", arguments, {});
  return self;  // nothing can change it
}

Value list_count(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "count", arguments, {"value"});
  std::int64_t count = 0;
  for (const auto& item : self.list()->items) count += equal(machine, item, given.required(0)) ? 1 : 0;
  return count;
}

Value list_index(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound given(machine, "index", arguments, {"value"});
  const auto& items = self.list()->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(machine, items[i], given.required(0))) return static_cast<std::int64_t>(i);
  }
  machine.fail("index looks for a value that is not in the list");
}

constexpr MethodRow kDictMethods[] = {
    {"get", dict_get},
    {"items", view<ListKind::items>},
    {"keys", view<ListKind::keys>},
    {"values", view<ListKind::values>},
    {"copy", copied},
    {"fromkeys", nullptr},
    {"clear", nullptr, true},
    {"pop", nullptr, true},
    {"popitem", nullptr, true},
    {"setdefault", nullptr, true},
    {"update", nullptr, true},
};

constexpr MethodRow kTupleMethods[] = {{"count", list_count}, {"index", list_index}};

constexpr MethodRow kListMethods[] = {
    {"count", list_count},      {"index", list_index},    {"copy", copied},
    {"append", nullptr, true},  {"clear", nullptr, true}, {"extend", nullptr, true},
    {"insert", nullptr, true},  {"pop", nullptr, true},   {"remove", nullptr, true},
    {"reverse", nullptr, true}, {"sort", nullptr, true},
};

// Methods of numbers: none of them is supported.
constexpr MethodRow kNumberMethods[] = {
    {"as_integer_ratio", nullptr}, {"bit_count", nullptr}, {"bit_length", nullptr}, {"conjugate", nullptr},
    {"denominator", nullptr},      {"fromhex", nullptr},   {"hex", nullptr},        {"imag", nullptr},
    {"is_integer", nullptr},       {"numerator", nullptr}, {"real", nullptr},       {"to_bytes", nullptr}};

const MethodRow* find_row(const auto& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &MethodRow::name);
  return found == std::end(rows) ? nullptr : &*found;
}

}  // namespace

const MethodRow* find_method(const Value& value, std::string_view name) {
  if (value.text()) return find_text_method(name);
  if (value.dict()) return find_row(kDictMethods, name);
  if (value.list(ListKind::list)) return find_row(kListMethods, name);
  if (value.list(ListKind::tuple) || value.list(ListKind::range)) return find_row(kTupleMethods, name);
  if (is_number(value)) return find_row(kNumberMethods, name);
  return nullptr;
}

}  // namespace hooked::text::jinja
