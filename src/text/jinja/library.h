#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

// The methods, filters, tests and functions that a template can use, in tables of rows.

struct MethodRow {
  std::string_view name;
  MethodFunction function;  ///< null: Jinja's or Python's, but not read here
  bool changes = false;     ///< changes its value, which is forbidden in templates
};

/// The row of that name in a table, or null.
const MethodRow* find_row(const auto& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &MethodRow::name);
  return found == std::end(rows) ? nullptr : &*found;
}

/// Python's method of that name for values such as `value`, or null.
const MethodRow* find_method(const Value& value, std::string_view name);

/// The filter of texts and numbers of that name, or null.
const MethodRow* find_text_filter(std::string_view name);

/// A function that templates can call by name: `range`, `namespace`. Null for other names.
const MethodRow* find_function(std::string_view name);

/// `value | name(arguments)`. Fails for a name that Jinja does not know.
Value apply_filter(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments);

/// `value is name(arguments)`. Fails for a name that Jinja does not know.
bool apply_test(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace hooked::text::jinja
