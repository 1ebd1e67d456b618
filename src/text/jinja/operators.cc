#include "text/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "text/jinja/python_text.h"

namespace hooked::text::jinja {
namespace {

constexpr std::string_view kArithmetic[] = {"+", "-", "*", "/", "//", "%"};

[[noreturn]] void fail_operands(Machine& machine, Arithmetic operation, const Value& left,
                                const Value& right) {
  machine.fail(fmt::format("'{}' cannot join {} and {}; expected two numbers, two texts or two lists",
                           kArithmetic[static_cast<std::size_t>(operation)], type_name(left),
                           type_name(right)));
}

// `result` is read after the operation that sets `overflowed`.
std::int64_t checked(Machine& machine, bool overflowed, const std::int64_t& result) {
  if (overflowed) machine.fail("a number is too large; expected integers of 64 bits");
  return result;
}

double floor_modulo(double left, double right) {
  const double rest = std::fmod(left, right);
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

Value of_integers(Machine& machine, Arithmetic operation, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (operation) {
    case Arithmetic::add:
      return checked(machine, __builtin_add_overflow(left, right, &result), result);
    case Arithmetic::subtract:
      return checked(machine, __builtin_sub_overflow(left, right, &result), result);
    case Arithmetic::multiply:
      return checked(machine, __builtin_mul_overflow(left, right, &result), result);
    case Arithmetic::divide:
      if (right == 0) break;
      return static_cast<double>(left) / static_cast<double>(right);
    case Arithmetic::floor_divide:
    case Arithmetic::modulo: {
      if (right == 0) break;
      if (right == -1) {  // INT64_MIN / -1 does not fit
        if (operation == Arithmetic::modulo) return std::int64_t{0};
        return checked(machine, __builtin_sub_overflow(std::int64_t{0}, left, &result), result);
      }
      const std::int64_t rest = left % right;
      const bool down = rest != 0 && (rest < 0) != (right < 0);
      return operation == Arithmetic::modulo ? rest + (down ? right : 0) : left / right - (down ? 1 : 0);
    }
  }
  machine.fail("division by zero");
}

Value of_floats(Machine& machine, Arithmetic operation, double left, double right) {
  const bool divides = operation == Arithmetic::divide || operation == Arithmetic::floor_divide ||
                       operation == Arithmetic::modulo;
  if (divides && right == 0) machine.fail("division by zero");
  switch (operation) {
    case Arithmetic::add:
      return left + right;
    case Arithmetic::subtract:
      return left - right;
    case Arithmetic::multiply:
      return left * right;
    case Arithmetic::divide:
      return left / right;
    case Arithmetic::floor_divide:
      return std::floor(left / right);
    case Arithmetic::modulo:
      break;
  }
  return floor_modulo(left, right);
}

Value repeated(Machine& machine, const Value& value, std::int64_t count) {
  if (count < 0) count = 0;
  const auto times = static_cast<std::uint64_t>(count);
  const auto* text = value.text();
  const std::uint64_t size = text ? text->size() : value.list()->items.size() * sizeof(Value);
  // A text that does not fit is refused before it is created.
  if (size > 0 && times > machine.limits().bytes / size) machine.charge(machine.limits().bytes + 1);
  machine.charge(size * times);
  if (text) {
    std::string result;
    result.reserve(size * times);
    for (std::uint64_t i = 0; size > 0 && i < times; ++i) result += *text;
    return machine.text(std::move(result));
  }
  std::vector<Value> items;
  items.reserve(value.list()->items.size() * times);
  for (std::uint64_t i = 0; size > 0 && i < times; ++i)
    items.insert(items.end(), value.list()->items.begin(), value.list()->items.end());
  return machine.list(std::move(items), value.list()->kind);
}

bool can_repeat(const Value& value) {
  return value.text() || value.list(ListKind::list) || value.list(ListKind::tuple);
}

// -1, 0 or 1; nothing if one of them is not a number.
std::optional<int> compare_numbers(const Value& left, const Value& right) {
  const auto a = integer_of(left), b = integer_of(right);
  if (a && b) return *a < *b ? -1 : *a > *b ? 1 : 0;
  const double x = number_of(left), y = number_of(right);
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool equal_dicts(Machine& machine, const Dict& left, const Dict& right) {
  if (left.members.size() != right.members.size()) return false;
  for (const auto& [key, value] : left.members) {
    bool found = false;
    for (const auto& [other_key, other] : right.members) {
      if (!equal(machine, key, other_key)) continue;
      found = equal(machine, value, other);
      break;
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace

void require_defined(Machine& machine, const Value& value) {
  const auto* undefined = value.as<Undefined>();
  if (!undefined) return;
  machine.fail(fmt::format("{}; expected a value",
                           undefined->why ? *undefined->why : std::string("something is undefined")));
}

Value arithmetic(Machine& machine, Arithmetic operation, const Value& left, const Value& right) {
  machine.step();
  require_defined(machine, left);
  if (const auto* format = left.text(); format && operation == Arithmetic::modulo)
    return machine.text(percent_format(machine, *format, right));
  require_defined(machine, right);
  if (is_number(left) && is_number(right)) {
    const auto a = integer_of(left), b = integer_of(right);
    if (a && b) return of_integers(machine, operation, *a, *b);
    return of_floats(machine, operation, number_of(left), number_of(right));
  }
  if (operation == Arithmetic::add) {
    if (left.text() && right.text()) {
      machine.charge(left.text()->size());
      return machine.text(*left.text() + *right.text());
    }
    for (const auto kind : {ListKind::list, ListKind::tuple}) {
      if (!left.list(kind) || !right.list(kind)) continue;
      auto items = left.list()->items;
      items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
      return machine.list(std::move(items), kind);
    }
  }
  if (operation == Arithmetic::multiply) {
    if (const auto count = integer_of(right); count && can_repeat(left))
      return repeated(machine, left, *count);
    if (const auto count = integer_of(left); count && can_repeat(right))
      return repeated(machine, right, *count);
  }
  fail_operands(machine, operation, left, right);
}

Value negative(Machine& machine, const Value& value) {
  require_defined(machine, value);
  if (const auto* number = value.as<double>()) return -*number;
  if (const auto integer = integer_of(value)) {
    return arithmetic(machine, Arithmetic::subtract, std::int64_t{0}, *integer);
  }
  machine.fail(fmt::format("'-' cannot be put before {}; expected a number", type_name(value)));
}

bool equal(Machine& machine, const Value& left, const Value& right) {
  machine.step();
  if (is_number(left) && is_number(right)) return compare_numbers(left, right) == 0;
  if (left.text() && right.text()) {
    machine.read(left.text()->size());
    return *left.text() == *right.text();
  }
  if (left.dict() && right.dict()) return equal_dicts(machine, *left.dict(), *right.dict());
  if (const auto* a = left.list(), *b = right.list(); a && b) {
    if (a == b) return true;
    if (a->kind != b->kind || a->kind == ListKind::generator || a->items.size() != b->items.size())
      return false;
    for (std::size_t i = 0; i < a->items.size(); ++i) {
      if (!equal(machine, a->items[i], b->items[i])) return false;
    }
    return true;
  }
  if (left.index() != right.index()) return false;
  if (const auto* space = left.as<Namespace*>()) return *space == *right.as<Namespace*>();
  if (const auto* callable = left.as<Callable*>()) return *callable == *right.as<Callable*>();
  return left.is<Undefined>() || left.is<None>();
}

bool less(Machine& machine, const Value& left, const Value& right) {
  machine.step();
  require_defined(machine, left);
  require_defined(machine, right);
  if (is_number(left) && is_number(right)) return compare_numbers(left, right) == -1;
  if (left.text() && right.text()) {
    machine.read(left.text()->size());
    return *left.text() < *right.text();  // the order of code points is that of UTF-8's bytes
  }
  if (const auto* a = left.list(), *b = right.list();
      a && b && a->kind == b->kind && (a->kind == ListKind::list || a->kind == ListKind::tuple)) {
    for (std::size_t i = 0; i < a->items.size() && i < b->items.size(); ++i) {
      if (!equal(machine, a->items[i], b->items[i])) return less(machine, a->items[i], b->items[i]);
    }
    return a->items.size() < b->items.size();
  }
  machine.fail(fmt::format("{} and {} have no order; expected two numbers, two texts or two lists",
                           type_name(left), type_name(right)));
}

bool compare(Machine& machine, Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::equal:
      return equal(machine, left, right);
    case Comparison::not_equal:
      return !equal(machine, left, right);
    case Comparison::less:
      return less(machine, left, right);
    case Comparison::greater:
      return less(machine, right, left);
    case Comparison::in:
      return contains(machine, right, left);
    case Comparison::not_in:
      return !contains(machine, right, left);
    case Comparison::less_equal:
    case Comparison::greater_equal:
      break;
  }
  const bool up = comparison == Comparison::less_equal;
  if (less(machine, up ? left : right, up ? right : left)) return true;
  return equal(machine, left, right);
}

bool contains(Machine& machine, const Value& container, const Value& item) {
  machine.step();
  if (const auto* text = container.text()) {
    const auto* part = item.text();
    if (!part) {
      require_defined(machine, item);
      machine.fail(fmt::format("'in' cannot look for {} in a text; expected a text", type_name(item)));
    }
    machine.read(text->size());
    return find_in(*text, *part) != std::string_view::npos;
  }
  if (const auto* dict = container.dict()) {
    for (const auto& [key, value] : dict->members) {
      if (equal(machine, key, item)) return true;
    }
    return false;
  }
  const auto holds = [&](const std::vector<Value>& members) {
    return std::ranges::any_of(members, [&](const Value& member) { return equal(machine, member, item); });
  };
  const auto* list = container.list();
  return list && list->kind != ListKind::generator ? holds(list->items) : holds(items_of(machine, container));
}

bool is_iterable(const Value& value) {
  return value.is<Undefined>() || value.text() || value.list() || value.dict();
}

std::vector<Value> items_of(Machine& machine, const Value& value) {
  if (value.is<Undefined>()) return {};
  if (const auto* list = value.list()) {
    machine.charge(list->items.size() * sizeof(Value));
    if (list->kind != ListKind::generator) return list->items;
    const auto begin = std::exchange(list->used, list->items.size());
    return {list->items.begin() + static_cast<std::ptrdiff_t>(begin), list->items.end()};
  }
  std::vector<Value> items;
  if (const auto* dict = value.dict()) {
    machine.charge(dict->members.size() * sizeof(Value));
    for (const auto& member : dict->members) items.push_back(member.first);
    return items;
  }
  if (const auto* text = value.text()) {
    for (std::size_t at = 0; at < text->size();) {
      const auto end = at + byte_of_character(std::string_view(*text).substr(at), 1);
      machine.charge(64);
      items.push_back(machine.text(text->substr(at, end - at)));
      at = end;
    }
    return items;
  }
  machine.fail(fmt::format("{} cannot be gone through; expected a list, a dict or a text", type_name(value)));
}

void put(Machine& machine, std::vector<std::pair<Value, Value>>& members, const Value& key, Value value) {
  if (key.list(ListKind::list) || key.dict())
    machine.fail(fmt::format("{} cannot be a key; expected a text or a number", type_name(key)));
  for (auto& [other, member] : members) {
    if (!equal(machine, other, key)) continue;
    member = std::move(value);
    return;
  }
  members.emplace_back(key, std::move(value));
}

}  // namespace hooked::text::jinja
