#pragma once

#include <string_view>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

/// One method of a type of Python's.
struct MethodRow {
  std::string_view name;
  MethodFunction function;  ///< null: Python's, but not supported here
  bool changes = false;     ///< changes its value, which is forbidden in templates
};

/// Python's method of that name for values such as `value`, or null.
const MethodRow* find_method(const Value& value, std::string_view name);

/// Of texts only.
const MethodRow* find_text_method(std::string_view name);

}  // namespace hooked::text::jinja
