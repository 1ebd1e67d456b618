#pragma once

#include <string>
#include <string_view>

#include "text/jinja/machine.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

/// Python's `format % values`: values are a tuple, or the only value. `%s`, `%d` and `%%` are read.
std::string percent_format(Machine& machine, std::string_view format, const Value& values);

/// Python's `format.format(...)`: `{}`, `{0}` and `{name}` are read, also with `:d`.
std::string brace_format(Machine& machine, std::string_view format, const Arguments& arguments);

}  // namespace hooked::text::jinja
