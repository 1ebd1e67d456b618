#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "text/jinja/interpreter.h"

namespace hooked::text::jinja {
namespace {

// A callable outlives the scope around it, so it has to be kept.
void keep(const Scope& scope, Machine& machine) {
  for (const Scope* kept = &scope; kept != nullptr && !kept->kept; kept = kept->around) {
    kept->kept = true;
    machine.charge(sizeof(Scope) + kept->names.size() * kNameBytes);
  }
}

}  // namespace

Macro::Macro(Interpreter& interpreter, std::string name, const Parameters& parameters, const Body& body,
             const Scope& around)
    : interpreter_(interpreter),
      name_(std::move(name)),
      parameters_(parameters),
      body_(body),
      around_(around) {
  keep(around, interpreter.machine());
}

Value Macro::call(Machine& machine, const Arguments& arguments) {
  const Machine::Level level(machine);
  Interpreter::Inner inner(interpreter_, around_, body_);
  Scope& scope = inner.scope();
  const auto count = parameters_.list.size();
  machine.charge((count + arguments.named.size()) * sizeof(Value));
  auto named = arguments.named;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    const auto found =
        std::ranges::find(named, name, [](const auto& pair) { return std::string_view(pair.first); });
    if (found == named.end()) return std::nullopt;
    auto value = std::move(found->second);
    named.erase(found);
    return value;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [name, otherwise] = parameters_.list[i];
    auto given = i < arguments.positional.size() ? std::optional<Value>(arguments.positional[i]) : take(name);
    if (!given) {
      given = otherwise ? interpreter_.evaluate(*otherwise, scope)
                        : machine.undefined(fmt::format("parameter '{}' was not provided", name));
    }
    scope.set(name, *std::move(given));
  }
  if (parameters_.uses_caller && scope.find("caller") == nullptr)
    scope.set("caller", take("caller").value_or(machine.undefined("No caller defined")));
  if (parameters_.uses_kwargs) {
    std::vector<std::pair<Value, Value>> members;
    for (auto& [name, value] : named) members.emplace_back(machine.text(name), std::move(value));
    named.clear();
    scope.set("kwargs", machine.dict(std::move(members)));
  }
  if (!named.empty()) {
    machine.fail(
        fmt::format("the macro '{}' has no parameter '{}'", printable(name_), printable(named[0].first)));
  }
  const auto rest = std::min(count, arguments.positional.size());
  if (parameters_.uses_varargs) {
    const auto begin = arguments.positional.begin() + static_cast<std::ptrdiff_t>(rest);
    scope.set("varargs", machine.list({begin, arguments.positional.end()}, ListKind::tuple));
  } else if (arguments.positional.size() > count) {
    machine.fail(fmt::format("the macro '{}' takes at most {} arguments, got {}", printable(name_), count,
                             arguments.positional.size()));
  }
  return machine.text(interpreter_.body_text(body_, scope));
}

Value Macro::member(Machine& machine, std::string_view name) {
  if (name == "name") return machine.text(name_);
  machine.unsupported("a member of a macro");
}

Value Loop::call(Machine& machine, const Arguments& /*arguments*/) {
  machine.unsupported("a loop that calls itself");
}

Value Loop::member(Machine& machine, std::string_view name) {
  const auto& items = items_->items;
  const auto index = static_cast<std::int64_t>(at_), size = static_cast<std::int64_t>(items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 >= size;
  if (name == "length") return size;
  if (name == "previtem")
    return at_ > 0 && at_ <= items.size() ? items[at_ - 1] : machine.undefined("there is no previous item");
  if (name == "nextitem")
    return at_ + 1 < items.size() ? items[at_ + 1] : machine.undefined("there is no next item");
  for (const std::string_view unread : {"changed", "cycle", "depth", "depth0"}) {
    if (name == unread) machine.unsupported(fmt::format("loop.{}", name));
  }
  return machine.undefined(fmt::format("a loop has no attribute '{}'", printable(name)));
}

}  // namespace hooked::text::jinja
