// The filters of lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/json.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace hooked::text::jinja {
namespace {

using Getter = std::function<Value(const Value&)>;

// A getter of the attribute `a.b.0` of an item, in lower case if texts are compared without regard to case.
Getter getter_of(Machine& machine, const Value* attribute, bool lower, const Value* otherwise = nullptr) {
  std::vector<Value> path;
  if (attribute && !attribute->is<None>()) {
    if (const auto* text = attribute->text()) {
      for (std::size_t begin = 0; begin <= text->size();) {
        const auto end = std::min(text->find('.', begin), text->size());
        const auto part = text->substr(begin, end - begin);
        const bool number =
            !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
        path.push_back(number ? Value(std::int64_t{std::stol(part)}) : machine.text(part));
        begin = end + 1;
      }
    } else {
      path.push_back(*attribute);
    }
  }
  return [&machine, path = std::move(path), lower,
          otherwise = otherwise ? std::optional<Value>(*otherwise) : std::nullopt](const Value& value) {
    Value found = value;
    for (const auto& part : path) {
      found = item(machine, found, part);
      if (otherwise && found.is<Undefined>()) found = *otherwise;
    }
    if (lower && found.text()) found = machine.text(in_case(*found.text(), Case::lower));
    return found;
  };
}

Value count_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "length", arguments, {});
  const auto length = length_of(machine, value);
  if (!length)
    machine.fail(fmt::format("{} has no length; expected a text, a list or a dict", type_name(value)));
  return *length;
}

Value default_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "default", arguments, {"default_value", "boolean"});
  if (!value.is<Undefined>() && !(given.truth(1, false) && !is_true(value))) return value;
  return given[0] ? *given[0] : machine.text("");
}

Value first_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "first", arguments, {});
  if (const auto* list = value.list(ListKind::generator)) {
    return list->used < list->items.size() ? list->items[list->used++]
                                           : machine.undefined("No first item, sequence was empty.");
  }
  const auto items = items_of(machine, value);
  return items.empty() ? machine.undefined("No first item, sequence was empty.") : items.front();
}

Value last_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "last", arguments, {});
  if (value.list(ListKind::generator))
    machine.fail("last cannot read what a filter such as map gives; expected `| list` before it");
  const auto items = items_of(machine, value);
  return items.empty() ? machine.undefined("No last item, sequence was empty.") : items.back();
}

Value list_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "list", arguments, {});
  return machine.list(items_of(machine, value));
}

Value join_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "join", arguments, {"d", "attribute"});
  const auto separator = given[0] ? text_of(machine, *given[0]) : std::string();
  const auto get = getter_of(machine, given[1], false);
  std::string joined;
  bool first = true;
  for (const auto& member : items_of(machine, value)) {
    machine.charge(separator.size());
    if (!std::exchange(first, false)) joined += separator;
    joined += text_of(machine, get(member));
  }
  return machine.text(std::move(joined));
}

Value reverse_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "reverse", arguments, {});
  auto items = items_of(machine, value);
  std::ranges::reverse(items);
  if (!value.text()) return machine.list(std::move(items), ListKind::generator);
  std::string reversed;
  for (const auto& character : items) reversed += *character.text();
  return machine.text(std::move(reversed));
}

// The values of pairs of a key and a value, in the order of the keys.
Value sorted_by_key(Machine& machine, std::vector<std::pair<Value, Value>> keyed, bool reverse) {
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? less(machine, b.first, a.first) : less(machine, a.first, b.first);
  });
  machine.charge(keyed.size() * sizeof(Value));
  std::vector<Value> values;
  for (auto& [key, value] : keyed) values.push_back(std::move(value));
  return machine.list(std::move(values));
}

Value sort_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const auto* attributes = given[2] ? given[2]->text() : nullptr;
  if (attributes && attributes->find(',') != std::string::npos)
    machine.unsupported("sort by several attributes");
  const auto get = getter_of(machine, given[2], !given.truth(1, false));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& member : items_of(machine, value)) {
    // Jinja compares lists of keys: equal keys need no order.
    keyed.emplace_back(machine.list({get(member)}), member);
  }
  return sorted_by_key(machine, std::move(keyed), given.truth(0, false));
}

Value dictsort_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const auto by = given.text(1).value_or("key");
  if (by != "key" && by != "value") machine.fail("dictsort sorts by another member; expected key or value");
  require_defined(machine, value);
  if (!value.dict()) machine.fail(fmt::format("dictsort is given {}; expected a dict", type_name(value)));
  const auto get = getter_of(machine, nullptr, !given.truth(0, false));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, member] : value.dict()->members)
    keyed.emplace_back(get(by == "key" ? key : member), machine.list({key, member}, ListKind::tuple));
  return sorted_by_key(machine, std::move(keyed), given.truth(2, false));
}

Value unique_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "unique", arguments, {"case_sensitive", "attribute"});
  const auto get = getter_of(machine, given[1], !given.truth(0, false));
  std::vector<Value> seen, chosen;
  for (const auto& member : items_of(machine, value)) {
    const Value key = get(member);
    if (std::ranges::any_of(seen, [&](const Value& other) { return equal(machine, key, other); })) continue;
    seen.push_back(key);
    chosen.push_back(member);
  }
  return machine.list(std::move(chosen), ListKind::generator);
}

Value items_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "items", arguments, {});
  std::vector<Value> pairs;
  if (!value.is<Undefined>()) {
    if (!value.dict()) machine.fail(fmt::format("items is given {}; expected a dict", type_name(value)));
    for (const auto& [key, member] : value.dict()->members)
      pairs.push_back(machine.list({key, member}, ListKind::tuple));
  }
  return machine.list(std::move(pairs), ListKind::generator);
}

Value map_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  std::vector<Value> mapped;
  if (!is_true(value)) return machine.list({}, ListKind::generator);
  if (arguments.positional.empty()) {
    const Bound given(machine, "map", arguments, {"attribute", "default"});
    const auto* otherwise = given[1] && !given[1]->is<None>() ? given[1] : nullptr;
    const auto get = getter_of(machine, &given.required(0), false, otherwise);
    for (const auto& member : items_of(machine, value)) mapped.push_back(get(member));
    return machine.list(std::move(mapped), ListKind::generator);
  }
  const auto* name = arguments.positional.front().text();
  if (!name) machine.fail("map is given no name; expected that of a filter");
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const auto& member : items_of(machine, value))
    mapped.push_back(apply_filter(machine, *name, member, rest));
  return machine.list(std::move(mapped), ListKind::generator);
}

enum class Wanted : std::uint8_t { true_ones, false_ones };
enum class Judged : std::uint8_t { item, attribute };

template <Wanted wanted, Judged judged>
Value choosing_filter(Machine& machine, const Value& value, const Arguments& arguments) {
  if (!is_true(value)) return machine.list({}, ListKind::generator);
  std::size_t used = 0;
  Getter get = [](const Value& member) { return member; };
  if (judged == Judged::attribute) {
    if (arguments.positional.empty()) machine.fail("selectattr and rejectattr lack the name of an attribute");
    get = getter_of(machine, &arguments.positional[used++], false);
  }
  const std::string* test = nullptr;
  if (used < arguments.positional.size()) {
    test = arguments.positional[used++].text();
    if (!test) machine.fail("this filter is given something else than the name of a test");
  }
  const Arguments rest{
      {arguments.positional.begin() + static_cast<std::ptrdiff_t>(used), arguments.positional.end()},
      arguments.named};
  std::vector<Value> chosen;
  for (const auto& member : items_of(machine, value)) {
    const Value asked = get(member);
    const bool holds = test ? apply_test(machine, *test, asked, rest) : is_true(asked);
    if (holds == (wanted == Wanted::true_ones)) chosen.push_back(member);
  }
  return machine.list(std::move(chosen), ListKind::generator);
}

constexpr MethodRow kListFilters[] = {
    {"attr", nullptr},
    {"batch", nullptr},
    {"count", count_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort_filter},
    {"first", first_filter},
    {"groupby", nullptr},
    {"items", items_filter},
    {"join", join_filter},
    {"last", last_filter},
    {"length", count_filter},
    {"list", list_filter},
    {"map", map_filter},
    {"max", nullptr},
    {"min", nullptr},
    {"random", nullptr},
    {"reject", choosing_filter<Wanted::false_ones, Judged::item>},
    {"rejectattr", choosing_filter<Wanted::false_ones, Judged::attribute>},
    {"reverse", reverse_filter},
    {"select", choosing_filter<Wanted::true_ones, Judged::item>},
    {"selectattr", choosing_filter<Wanted::true_ones, Judged::attribute>},
    {"slice", nullptr},
    {"sort", sort_filter},
    {"sum", nullptr},
    {"unique", unique_filter},
};

}  // namespace

Value apply_filter(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments) {
  machine.step();
  const auto* text_row = find_text_filter(name);
  const auto* row = text_row ? text_row : find_row(kListFilters, name);
  if (!row) machine.fail(fmt::format("there is no filter '{}'; expected one of Jinja's", printable(name)));
  if (!row->function) machine.unsupported(fmt::format("the filter '{}'", name));
  return row->function(machine, value, arguments);
}

}  // namespace hooked::text::jinja
