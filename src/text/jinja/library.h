#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

// The methods, filters, tests and functions that a template can use, in tables of rows, and how they read
// their arguments.

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

/// The arguments of one call by parameter number. Fails if there are too many, if one is given twice, or if
/// one has a name that no parameter has.
class Bound {
 public:
  Bound(Machine& machine, std::string_view what, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters);

  /// What was given, or null.
  const Value* operator[](std::size_t parameter) const noexcept { return values_[parameter]; }
  /// Fails if it was not given.
  const Value& required(std::size_t parameter) const;

  // What was given, or the default; none counts as not given. All fail for a value of another type.
  std::optional<std::string> text(std::size_t parameter) const;
  std::string required_text(std::size_t parameter) const;
  std::int64_t integer(std::size_t parameter, std::int64_t otherwise) const;
  bool truth(std::size_t parameter, bool otherwise) const;

 private:
  [[noreturn]] void refuse(std::size_t parameter, std::string_view expected) const;

  Machine& machine_;
  std::string_view what_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace hooked::text::jinja
