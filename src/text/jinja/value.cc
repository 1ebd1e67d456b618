#include "text/jinja/value.h"

#include <algorithm>

namespace hooked::text::jinja {

const Value* Dict::find(std::string_view name) const {
  for (const auto& [key, value] : members) {
    const auto* text = key.text();
    if (text && *text == name) return &value;
  }
  return nullptr;
}

Value* Namespace::find(std::string_view name) {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
  return found == members.end() ? nullptr : &found->second;
}

Value Callable::member(Machine& /*machine*/, std::string_view /*name*/) { return Undefined{}; }

bool is_true(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (is_number(value)) return number_of(value) != 0;
  if (const auto* text = value.text()) return !text->empty();
  if (const auto* list = value.list()) return list->kind == ListKind::generator || !list->items.empty();
  if (const auto* dict = value.dict()) return !dict->members.empty();
  if (const auto* callable = value.as<Callable*>()) return (*callable)->length() > 0;
  return true;
}

std::string_view type_name(const Value& value) {
  if (value.is<Undefined>()) return "Undefined";
  if (value.is<None>()) return "NoneType";
  if (value.is<bool>()) return "bool";
  if (value.is<std::int64_t>()) return "int";
  if (value.is<double>()) return "float";
  if (value.text()) return "str";
  if (value.dict()) return "dict";
  if (value.is<Namespace*>()) return "namespace";
  constexpr std::string_view kListKinds[] = {"list",        "tuple",      "range",    "dict_keys",
                                             "dict_values", "dict_items", "generator"};
  if (const auto* list = value.list()) return kListKinds[static_cast<std::size_t>(list->kind)];
  return "function";
}

std::string described(const Value& value) {
  if (value.is<None>()) return "None";
  return std::string(type_name(value)) + " object";
}

bool has_places(const List& list) {
  return list.kind == ListKind::list || list.kind == ListKind::tuple || list.kind == ListKind::range;
}

bool is_number(const Value& value) {
  return value.is<bool>() || value.is<std::int64_t>() || value.is<double>();
}

double number_of(const Value& value) {
  if (const auto* number = value.as<double>()) return *number;
  return static_cast<double>(integer_of(value).value_or(0));
}

std::optional<std::int64_t> integer_of(const Value& value) {
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* truth = value.as<bool>()) return *truth ? 1 : 0;
  return std::nullopt;
}

}  // namespace hooked::text::jinja
