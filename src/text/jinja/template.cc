#include "text/jinja/template.h"

#include <fmt/format.h>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace hooked::text::jinja {
namespace {

Value value_of(Machine& machine, const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX)
        machine.fail("a variable is too large; expected an integer of 64 bits");
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return machine.text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(value_of(machine, item));
      return machine.list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> members;
      members.reserve(json.size());
      for (const auto& [key, item] : json.items())
        members.emplace_back(machine.text(key), value_of(machine, item));
      return machine.dict(std::move(members));
    }
    default:
      return None{};
  }
}

}  // namespace

Template::Template(std::string_view text, std::string_view name, const Limits& limits)
    : limits_(limits), source_(text, name, limits), body_(parse(source_, limits)) {}

std::string Template::render(const std::vector<std::pair<std::string, Json>>& variables,
                             std::optional<std::time_t> now) const {
  Machine machine(source_, limits_, now);
  std::vector<std::pair<std::string, Value>> names;
  for (const auto& [name, json] : variables) names.emplace_back(name, value_of(machine, json));
  return Interpreter(machine).render(body_, std::move(names));
}

}  // namespace hooked::text::jinja
