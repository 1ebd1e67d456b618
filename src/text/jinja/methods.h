#pragma once

#include <string_view>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

/// One method of a type of Python's.
struct MethodRow {
  std::string_view name;
  MethodFunction function;  ///< null: Python's, but not read here
  bool changes = false;     ///< changes its value, which templates may not
};

/// The method of that name that Python gives values such as `value`, or null.
const MethodRow* find_method(const Value& value, std::string_view name);

/// Of texts, apart from the others.
const MethodRow* find_text_method(std::string_view name);

}  // namespace hooked::text::jinja
