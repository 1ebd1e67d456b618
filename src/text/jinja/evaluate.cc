// How expressions of a template are evaluated.
#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "core/overloaded.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace hooked::text::jinja {
Value Interpreter::evaluate(const Expression& expression, const Scope& scope) {
  const Machine::Level level(machine_);
  machine_.step();
  const auto at = expression.at;
  const auto inner = [&](const ExpressionPtr& part) { return evaluate(*part, scope); };
  // Errors after the parts have been evaluated are reported at the whole expression.
  const auto here = [&]() -> Machine& {
    machine_.at(at);
    return machine_;
  };
  here();
  return std::visit(Overloaded{
                        [&](const Literal& form) { return form.value; },
                        [&](const Name& form) { return name(form, scope); },
                        [&](const ListLiteral& form) { return list_literal(form, scope); },
                        [&](const DictLiteral& form) { return dict_literal(form, scope); },
                        [&](const AttributeOf& form) {
                          const Value value = inner(form.value);
                          return attribute(here(), value, form.name);
                        },
                        [&](const ItemOf& form) {
                          const Value value = inner(form.value), index = inner(form.index);
                          return item(here(), value, index);
                        },
                        [&](const SliceOf& form) {
                          const Value value = inner(form.value), begin = evaluated_or_none(form.begin, scope),
                                      end = evaluated_or_none(form.end, scope),
                                      step = evaluated_or_none(form.step, scope);
                          return slice(here(), value, begin, end, step);
                        },
                        [&](const Call& form) { return call(form, at, scope, nullptr); },
                        [&](const Filtered& form) {
                          const Value value = form.value ? inner(form.value) : *block_text_;
                          const auto given = arguments(form.arguments, scope);
                          return apply_filter(here(), form.name, value, given);
                        },
                        [&](const Tested& form) {
                          const Value value = inner(form.value);
                          const auto given = arguments(form.arguments, scope);
                          return Value(apply_test(here(), form.name, value, given));
                        },
                        [&](const Not& form) { return Value(!is_true(inner(form.value))); },
                        [&](const Sign& form) {
                          const Value value = inner(form.value);
                          if (form.minus) return negative(here(), value);
                          return arithmetic(here(), Arithmetic::add, std::int64_t{0}, value);
                        },
                        [&](const Logical& form) {
                          Value left = inner(form.left);
                          return is_true(left) == form.is_or ? left : inner(form.right);
                        },
                        [&](const Calculation& form) {
                          const Value left = inner(form.left), right = inner(form.right);
                          return arithmetic(here(), form.operation, left, right);
                        },
                        [&](const Joined& form) { return joined(form, scope); },
                        [&](const Compared& form) { return Value(compared(form, scope)); },
                        [&](const Conditional& form) { return conditional(form, scope); },
                    },
                    expression.form);
}

Value Interpreter::evaluated_or_none(const ExpressionPtr& expression, const Scope& scope) {
  return expression ? evaluate(*expression, scope) : None{};
}

Value Interpreter::name(const Name& name, const Scope& scope) {
  for (const Scope* each = &scope; each != nullptr; each = each->around) {
    machine_.step(each->names.size() / 16);
    if (const auto* value = each->find(name.name)) return *value;
  }
  const auto* row = find_function(name.name);
  if (!row) return machine_.undefined_name(name.name);
  if (!row->function) machine_.unsupported(fmt::format("the function '{}'", name.name));
  return std::make_shared<const Method>(Method{None{}, row->function});
}

Value Interpreter::list_literal(const ListLiteral& literal, const Scope& scope) {
  std::vector<Value> items;
  items.reserve(literal.items.size());
  for (const auto& item : literal.items) items.push_back(evaluate(*item, scope));
  return machine_.list(std::move(items), literal.kind);
}

Value Interpreter::dict_literal(const DictLiteral& literal, const Scope& scope) {
  std::vector<std::pair<Value, Value>> members;
  for (const auto& [key, value] : literal.members) {
    const Value name = evaluate(*key, scope);
    put(machine_, members, name, evaluate(*value, scope));
  }
  return machine_.dict(std::move(members));
}

Value Interpreter::conditional(const Conditional& conditional, const Scope& scope) {
  if (is_true(evaluate(*conditional.condition, scope))) return evaluate(*conditional.then, scope);
  if (conditional.otherwise) return evaluate(*conditional.otherwise, scope);
  return machine_.undefined("the inline if-expression evaluated to false and no else section was defined");
}

bool Interpreter::compared(const Compared& compared, const Scope& scope) {
  Value left = evaluate(*compared.first, scope);
  for (const auto& [comparison, expression] : compared.others) {
    Value right = evaluate(*expression, scope);
    if (!compare(machine_, comparison, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::joined(const Joined& joined, const Scope& scope) {
  std::string text;
  for (const auto& part : joined.parts) text += text_of(machine_, evaluate(*part, scope));
  return machine_.text(std::move(text));
}

Arguments Interpreter::arguments(const CallArguments& given, const Scope& scope) {
  Arguments result;
  for (const auto& value : given.positional) result.positional.push_back(evaluate(*value, scope));
  for (const auto& [name, value] : given.named) result.named.emplace_back(name, evaluate(*value, scope));
  if (given.star) {
    for (auto& item : items_of(machine_, evaluate(*given.star, scope)))
      result.positional.push_back(std::move(item));
  }
  if (given.star_star) {
    const Value members = evaluate(*given.star_star, scope);
    if (!members.dict())
      machine_.fail(fmt::format("'**' is put before {}; expected a dict", type_name(members)));
    for (const auto& [key, value] : members.dict()->members) {
      if (!key.text()) machine_.fail("'**' is put before a dict with a key that is not a text");
      machine_.charge(key.text()->size() + sizeof(Value));
      result.named.emplace_back(*key.text(), value);
    }
  }
  return result;
}

Value Interpreter::call(const Call& call, std::size_t at, const Scope& scope, const Value* caller) {
  const Value function = evaluate(*call.function, scope);
  auto given = arguments(call.arguments, scope);
  if (caller) given.named.emplace_back("caller", *caller);
  machine_.at(at);
  machine_.step();
  require_defined(machine_, function);
  if (const auto* method = function.as<std::shared_ptr<const Method>>())
    return (*method)->function(machine_, (*method)->self, given);
  if (const auto* callable = function.as<Callable*>()) return (*callable)->call(machine_, given);
  machine_.fail(
      fmt::format("{} cannot be called; expected a function, a method or a macro", type_name(function)));
}

}  // namespace hooked::text::jinja
