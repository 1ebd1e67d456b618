#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

// Python's operators on values, in Jinja's sandbox. All report errors at the machine's place.

enum class Arithmetic : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo };
enum class Comparison : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

Value arithmetic(Machine& machine, Arithmetic operation, const Value& left, const Value& right);
Value negative(Machine& machine, const Value& value);

bool compare(Machine& machine, Comparison comparison, const Value& left, const Value& right);
bool equal(Machine& machine, const Value& left, const Value& right);
/// Whether `left` comes before `right`; fails if Python has no order for them.
bool less(Machine& machine, const Value& left, const Value& right);
bool contains(Machine& machine, const Value& container, const Value& item);

/// The items that a loop iterates over. Uses up a generator.
std::vector<Value> items_of(Machine& machine, const Value& value);
bool is_iterable(const Value& value);

/// Python's len(), or nothing for values without a length.
std::optional<std::int64_t> length_of(Machine& machine, const Value& value);

/// `value[index]`: an item, else an attribute, else undefined.
Value item(Machine& machine, const Value& value, const Value& index);

/// `value.name`: an attribute, else an item, else undefined.
Value attribute(Machine& machine, const Value& value, std::string_view name);

/// `value[begin:end:step]`; bounds that are not given are none.
Value slice(Machine& machine, const Value& value, const Value& begin, const Value& end, const Value& step);

/// Fails if the value is undefined.
void require_defined(Machine& machine, const Value& value);

/// Puts a member into a dict under construction, as Python does: an existing key keeps its place.
void put(Machine& machine, std::vector<std::pair<Value, Value>>& members, const Value& key, Value value);

}  // namespace hooked::text::jinja
