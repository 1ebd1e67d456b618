// Items, attributes and parts of values.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/unicode/unicode.h"

namespace hooked::text::jinja {
namespace {

Value without_attribute(Machine& machine, const Value& value, std::string_view name) {
  return machine.undefined(fmt::format("'{}' has no attribute '{}'", described(value), name));
}

// An attribute that Python's getattr() finds, or nothing.
std::optional<Value> own_attribute(Machine& machine, const Value& value, std::string_view name) {
  require_defined(machine, value);
  if (const auto* space = value.as<Namespace*>()) {
    machine.step((*space)->members.size() / 8);
    const auto* member = (*space)->find(name);
    return member ? std::optional<Value>(*member) : std::nullopt;
  }
  if (const auto* callable = value.as<Callable*>()) return (*callable)->member(machine, name);
  const auto* row = find_method(value, name);
  if (!row) return std::nullopt;
  if (row->changes) {
    return machine.undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(value)));
  }
  if (!row->function) machine.unsupported(fmt::format("the method {} of {}", name, type_name(value)));
  machine.charge(sizeof(Method));
  return std::make_shared<const Method>(Method{value, row->function});
}

// The item that Python's value[index] finds, or nothing.
std::optional<Value> own_item(Machine& machine, const Value& value, const Value& index) {
  require_defined(machine, value);
  if (const auto* dict = value.dict()) {
    if (const auto* name = index.text()) {
      machine.step(1 + dict->members.size() / 4);
      const auto* member = dict->find(*name);
      return member ? std::optional<Value>(*member) : std::nullopt;
    }
    for (const auto& [key, member] : dict->members) {
      if (equal(machine, key, index)) return member;
    }
    return std::nullopt;
  }
  const auto number = integer_of(index);
  if (!number) return std::nullopt;
  const auto* list = value.list();
  if (list && has_places(*list)) {
    const auto size = static_cast<std::int64_t>(list->items.size());
    if (*number >= size || *number < -size) return std::nullopt;
    return list->items[static_cast<std::size_t>(*number < 0 ? *number + size : *number)];
  }
  if (const auto* text = value.text()) {
    machine.read(text->size());
    const auto size = static_cast<std::int64_t>(count_characters(*text));
    if (*number >= size || *number < -size) return std::nullopt;
    const auto at =
        byte_of_character(*text, static_cast<std::size_t>(*number < 0 ? *number + size : *number));
    return machine.text(text->substr(at, byte_of_character(std::string_view(*text).substr(at), 1)));
  }
  return std::nullopt;
}

// The indices of the items of a slice of `size` items, as Python's slice.indices() gives them.
struct SliceRange {
  std::int64_t begin, end, step;
};

SliceRange slice_range(Machine& machine, std::int64_t size, const Value& begin, const Value& end,
                       const Value& step) {
  const auto number = [&](const Value& value, std::int64_t otherwise) {
    if (value.is<None>()) return otherwise;
    require_defined(machine, value);
    const auto integer = integer_of(value);
    if (!integer)
      machine.fail(fmt::format("a slice has {} for a bound; expected an integer", type_name(value)));
    return *integer;
  };
  const auto by = number(step, 1);
  if (by == 0) machine.fail("a slice has the step 0; expected another");
  const std::int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? size - 1 : size;
  const auto bounded = [&](const Value& value, std::int64_t otherwise) {
    auto bound = number(value, otherwise);
    if (value.is<None>()) return otherwise;
    if (bound < 0) bound = std::max(bound, -size - 1) + size;
    return std::clamp(bound, lowest, std::max(lowest, highest));
  };
  return {bounded(begin, by < 0 ? highest : lowest), bounded(end, by < 0 ? lowest : highest), by};
}

}  // namespace

std::optional<std::int64_t> length_of(Machine& machine, const Value& value) {
  if (value.is<Undefined>()) return 0;
  if (const auto* text = value.text()) {
    machine.read(text->size());
    return static_cast<std::int64_t>(count_characters(*text));
  }
  if (const auto* dict = value.dict()) return static_cast<std::int64_t>(dict->members.size());
  const auto* list = value.list();
  if (!list || list->kind == ListKind::generator) return std::nullopt;
  return static_cast<std::int64_t>(list->items.size());
}

Value item(Machine& machine, const Value& value, const Value& index) {
  machine.step();
  if (auto found = own_item(machine, value, index)) return *std::move(found);
  if (const auto* name = index.text()) {
    if (auto found = own_attribute(machine, value, *name)) return *std::move(found);
    return without_attribute(machine, value, *name);
  }
  return machine.undefined(fmt::format("{} has no such element", described(value)));
}

Value attribute(Machine& machine, const Value& value, std::string_view name) {
  machine.step();
  if (auto found = own_attribute(machine, value, name)) return *std::move(found);
  if (const auto* dict = value.dict()) {
    machine.step(dict->members.size() / 4);
    if (const auto* member = dict->find(name)) return *member;
  }
  return without_attribute(machine, value, name);
}

// Where a stretch of a range, which is a range as well, starts, stops and how it steps.
List::Range range_of(Machine& machine, const List::Range& whole, const SliceRange& stretch) {
  List::Range part{};
  std::int64_t to_start = 0, to_stop = 0;
  if (__builtin_mul_overflow(stretch.begin, whole.step, &to_start) ||
      __builtin_add_overflow(whole.start, to_start, &part.start) ||
      __builtin_mul_overflow(stretch.end, whole.step, &to_stop) ||
      __builtin_add_overflow(whole.start, to_stop, &part.stop) ||
      __builtin_mul_overflow(whole.step, stretch.step, &part.step)) {
    machine.fail("a stretch of a range has numbers beyond 64 bits; expected smaller ones");
  }
  return part;
}

Value slice(Machine& machine, const Value& value, const Value& begin, const Value& end, const Value& step) {
  machine.step();
  require_defined(machine, value);
  const auto* text = value.text();
  const auto* list = value.list();
  // Python's own slicing, which Jinja leaves it to, throws.
  if (!text && !(list && has_places(*list)))
    machine.fail(fmt::format("{} cannot be sliced; expected a text or a list", described(value)));
  const auto size = *length_of(machine, value);
  const auto range = slice_range(machine, size, begin, end, step);
  if (text && range.step == 1) {
    if (range.end <= range.begin) return machine.text({});
    const auto first = byte_of_character(*text, static_cast<std::size_t>(range.begin));
    const auto rest = std::string_view(*text).substr(first);
    return machine.text(std::string(
        rest.substr(0, byte_of_character(rest, static_cast<std::size_t>(range.end - range.begin)))));
  }
  const auto items = text ? items_of(machine, value) : list->items;
  std::vector<Value> chosen;
  const auto by = std::clamp(range.step, -size - 1, size + 1);  // so that sums have 64 bits
  for (auto i = range.begin; by > 0 ? i < range.end : i > range.end; i += by) {
    machine.charge(sizeof(Value));
    chosen.push_back(items[static_cast<std::size_t>(i)]);
  }
  if (!text && list->kind == ListKind::range) {
    return std::make_shared<const List>(List{
        .items = std::move(chosen), .kind = ListKind::range, .range = range_of(machine, list->range, range)});
  }
  if (!text) return machine.list(std::move(chosen), list->kind);
  std::string joined;
  for (const auto& character : chosen) joined += *character.text();
  return machine.text(std::move(joined));
}

}  // namespace hooked::text::jinja
