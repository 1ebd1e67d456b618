
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/json.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace hooked::text::jinja {
namespace {

// A number in the place `%d`: Python cuts off what follows the point.
std::string integer_text(Machine& machine, const Value& value) {
  require_defined(machine, value);
  if (const auto integer = integer_of(value)) return std::to_string(*integer);
  const auto* number = value.as<double>();
  if (!number) machine.fail(fmt::format("a % format wants a number, got {}", type_name(value)));
  if (!(std::abs(*number) < 9e18)) machine.fail("a number is too large; expected integers of 64 bits");
  return std::to_string(static_cast<std::int64_t>(*number));
}

// The value of the place `{}`, `{0}` or `{name}`; `next` counts places without a name.
Value value_at(Machine& machine, std::string_view name, const Arguments& arguments, std::size_t& next) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (name.empty() || (error == std::errc() && end == name.data() + name.size())) {
    if (name.empty()) number = next++;
    if (number >= arguments.positional.size()) machine.fail("a format has fewer values than places");
    return arguments.positional[number];
  }
  if (name.find_first_of(".[!{") != name.npos) machine.unsupported("this place of a format");
  const auto found =
      std::ranges::find(arguments.named, name, [](const auto& pair) { return std::string_view(pair.first); });
  if (found == arguments.named.end()) machine.fail("a format names a value that is not given");
  return found->second;
}

}  // namespace

std::string percent_format(Machine& machine, std::string_view format, const Value& values) {
  const auto* tuple = values.list(ListKind::tuple);
  const std::size_t count = tuple ? tuple->items.size() : 1;
  std::string result;
  std::size_t used = 0;
  machine.read(format.size());
  while (true) {
    const auto percent = std::min(format.find('%'), format.size());
    result += format.substr(0, percent);
    format.remove_prefix(percent);
    if (format.empty()) break;
    machine.step();
    if (format.size() < 2) machine.fail("a % format ends within a place for a value");
    const char type = format[1];
    format.remove_prefix(2);
    if (type == '%') {
      result += '%';
      continue;
    }
    if (type != 's' && type != 'd')
      machine.unsupported(fmt::format("'%{}' in a format", printable({&type, 1})));
    if (used >= count) machine.fail("a % format has fewer values than places");
    const Value& value = tuple ? tuple->items[used] : values;
    ++used;
    result += type == 's' ? text_of(machine, value) : integer_text(machine, value);
  }
  const bool may_be_left = !tuple && (values.dict() || values.list());
  if (used < count && !may_be_left) machine.fail("a % format has more values than places");
  machine.charge(result.size());
  return result;
}

std::string brace_format(Machine& machine, std::string_view format, const Arguments& arguments) {
  std::string result;
  std::size_t next = 0;
  machine.read(format.size());
  while (true) {
    const auto brace = std::min(format.find_first_of("{}"), format.size());
    result += format.substr(0, brace);
    format.remove_prefix(brace);
    if (format.empty()) break;
    if (format.size() > 1 && format[0] == format[1]) {
      result += format[0];
      format.remove_prefix(2);
      continue;
    }
    const auto end = format.find('}');
    if (format[0] == '}' || end == format.npos) machine.fail("a format has a brace without its partner");
    const auto place = format.substr(1, end - 1);
    format.remove_prefix(end + 1);
    machine.step();
    const auto colon = std::min(place.find(':'), place.size());
    const auto layout = place.substr(colon);
    const Value value = value_at(machine, place.substr(0, colon), arguments, next);
    if (!layout.empty() && layout != ":" && layout != ":d") machine.unsupported("this layout of a format");
    if (layout == ":d" && !integer_of(value))
      machine.fail("a format asks for a number, and the value is not an integer");
    result += layout == ":d" ? integer_text(machine, value) : text_of(machine, value);
  }
  machine.charge(result.size());
  return result;
}

}  // namespace hooked::text::jinja
