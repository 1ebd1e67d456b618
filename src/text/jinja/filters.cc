#include "text/jinja/filters.h"

#include <fmt/format.h>

#include "core/json.h"

namespace hooked::text::jinja {

const MethodRow* find_filter(std::string_view name) {
  const auto* row = find_text_filter(name);
  return row ? row : find_list_filter(name);
}

Value apply_filter(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments) {
  machine.step();
  const auto* row = find_filter(name);
  if (!row) machine.fail(fmt::format("there is no filter '{}'; expected one of Jinja's", printable(name)));
  if (!row->function) machine.unsupported(fmt::format("the filter '{}'", name));
  return row->function(machine, value, arguments);
}

bool apply_test(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments) {
  machine.step();
  const auto* row = find_test(name);
  if (!row) machine.fail(fmt::format("there is no test '{}'; expected one of Jinja's", printable(name)));
  if (!row->function) machine.unsupported(fmt::format("the test '{}'", name));
  return is_true(row->function(machine, value, arguments));
}

}  // namespace hooked::text::jinja
