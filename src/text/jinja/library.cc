#include "text/jinja/library.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "text/jinja/operators.h"

namespace hooked::text::jinja {

Bound::Bound(Machine& machine, std::string_view what, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters)
    : machine_(machine), what_(what), names_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > names_.size()) {
    machine.fail(fmt::format("{} takes at most {} arguments, got {}", what, names_.size(),
                             arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) machine.fail(fmt::format("{} has no parameter '{}'", what, printable(name)));
    auto& place = values_[static_cast<std::size_t>(found - names_.begin())];
    if (place) machine.fail(fmt::format("{} is given '{}' twice", what, printable(name)));
    place = &value;
  }
}

void Bound::refuse(std::size_t parameter, std::string_view expected) const {
  machine_.fail(fmt::format("{} is given {} for '{}'; expected {}", what_, type_name(*values_[parameter]),
                            names_[parameter], expected));
}

const Value& Bound::required(std::size_t parameter) const {
  if (!values_[parameter]) machine_.fail(fmt::format("{} lacks its argument '{}'", what_, names_[parameter]));
  return *values_[parameter];
}

std::optional<std::string> Bound::text(std::size_t parameter) const {
  const auto* value = values_[parameter];
  if (!value || value->is<None>()) return std::nullopt;
  require_defined(machine_, *value);
  if (!value->text()) refuse(parameter, "a text");
  machine_.charge(value->text()->size());
  return *value->text();
}

std::string Bound::required_text(std::size_t parameter) const {
  required(parameter);
  auto given = text(parameter);
  if (!given) refuse(parameter, "a text");
  return *std::move(given);
}

std::int64_t Bound::integer(std::size_t parameter, std::int64_t otherwise) const {
  const auto* value = values_[parameter];
  if (!value || value->is<None>()) return otherwise;
  require_defined(machine_, *value);
  const auto integer = integer_of(*value);
  if (!integer) refuse(parameter, "an integer");
  return *integer;
}

bool Bound::truth(std::size_t parameter, bool otherwise) const {
  return values_[parameter] ? is_true(*values_[parameter]) : otherwise;
}

}  // namespace hooked::text::jinja
