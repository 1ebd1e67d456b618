#pragma once

#include <string_view>

#include "text/jinja/machine.h"
#include "text/jinja/methods.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

/// Jinja's filter of that name, or null. A row without a function: Jinja has it, but it is not read here.
const MethodRow* find_filter(std::string_view name);
/// Filters of texts and numbers, and those of lists and dicts.
const MethodRow* find_text_filter(std::string_view name);
const MethodRow* find_list_filter(std::string_view name);

/// `value | name(arguments)`. Fails for a name that Jinja does not know.
Value apply_filter(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments);

/// Jinja's test of that name, or null.
const MethodRow* find_test(std::string_view name);

/// `value is name(arguments)`. Fails for a name that Jinja does not know.
bool apply_test(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments);

/// A function that templates can call by name: `range`, `namespace`. Null for other names.
const MethodRow* find_function(std::string_view name);

}  // namespace hooked::text::jinja
