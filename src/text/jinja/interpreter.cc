#include "text/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "core/overloaded.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace hooked::text::jinja {
const Value* Scope::find(std::string_view name) const noexcept {
  for (const auto& [other, value] : names) {
    if (other == name) return &value;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [other, old] : names) {
    if (other != name) continue;
    old = std::move(value);
    return;
  }
  names.emplace_back(name, std::move(value));
}

Interpreter::Inner::Inner(Interpreter& interpreter, const Scope& around) : interpreter_(interpreter) {
  if (interpreter.free_.empty()) {
    interpreter.machine_.charge(sizeof(Scope));
    interpreter.free_.push_back(interpreter.scopes_.emplace_back(std::make_unique<Scope>()).get());
  }
  interpreter.machine_.step();
  scope_ = interpreter.free_.back();
  interpreter.free_.pop_back();
  scope_->around = &around;
}

Interpreter::Inner::Inner(Interpreter& interpreter, const Scope& around, const Body& body)
    : Inner(interpreter, around) {
  for (const auto& name : body.names->unset) scope_->set(name, interpreter.machine_.undefined_name(name));
}

Interpreter::Inner::~Inner() {
  if (scope_->kept) return;  // a macro reads it until the rendering ends
  scope_->names.clear();
  interpreter_.free_.push_back(scope_);
}

std::string Interpreter::render(const Body& body, std::vector<std::pair<std::string, Value>> names) {
  const Scope given{.around = nullptr, .names = std::move(names)};
  return inner_text(body, given);
}

void Interpreter::print(std::string_view text, std::string& out) {
  machine_.charge(text.size());
  if ((printed_ += text.size()) > machine_.limits().output) {
    machine_.fail(fmt::format("the chat template writes too much; expected at most {} bytes",
                              machine_.limits().output));
  }
  out += text;
}

Interpreter::Flow Interpreter::run(const Block& block, Scope& scope, std::string& out) {
  for (const auto& statement : block) {
    if (const auto flow = run(statement, scope, out); flow != Flow::go_on) return flow;
  }
  return Flow::go_on;
}

std::string Interpreter::body_text(const Body& body, Scope& scope) {
  std::string out;
  run(body.statements, scope, out);
  return out;
}

std::string Interpreter::inner_text(const Body& body, const Scope& scope) {
  Inner inner(*this, scope, body);
  return body_text(body, inner.scope());
}

Value Interpreter::filtered_text(const Expression* filter, const Scope& scope, std::string text) {
  const Value value = machine_.text(std::move(text));
  if (!filter) return value;
  const auto* before = std::exchange(block_text_, &value);
  Value filtered = evaluate(*filter, scope);
  block_text_ = before;
  return filtered;
}

Interpreter::Flow Interpreter::run_if(const If& statement, Scope& scope, std::string& out) {
  for (const auto& [condition, body] : statement.branches) {
    if (is_true(evaluate(*condition, scope))) return run(body, scope, out);
  }
  return run(statement.otherwise, scope, out);
}

Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope, std::string& out) {
  const Machine::Level level(machine_);
  machine_.step();
  machine_.at(statement.at);
  return std::visit(Overloaded{
                        [&](const If& form) { return run_if(form, scope, out); },
                        [&](const Break&) { return Flow::leave_loop; },
                        [&](const Continue&) { return Flow::next_item; },
                        [&](const auto& form) {
                          run_plain(form, scope, out);
                          return Flow::go_on;
                        },
                    },
                    statement.form);
}

void Interpreter::run_plain(const Plain& form, Scope& /*scope*/, std::string& out) {
  print(*form.text.text(), out);
}

void Interpreter::run_plain(const Print& form, Scope& scope, std::string& out) {
  const Value value = evaluate(*form.value, scope);
  const auto* text = value.text();
  print(text ? *text : text_of(machine_, value), out);
}

void Interpreter::run_plain(const Set& form, Scope& scope, std::string& /*out*/) {
  assign(form.target, scope, evaluate(*form.value, scope));
}

void Interpreter::run_plain(const SetBlock& form, Scope& scope, std::string& /*out*/) {
  assign(form.target, scope, filtered_text(form.filter.get(), scope, inner_text(form.body, scope)));
}

void Interpreter::run_plain(const MacroDefinition& form, Scope& scope, std::string& /*out*/) {
  scope.set(form.name,
            machine_.own(std::make_unique<Macro>(*this, form.name, form.parameters, form.body, scope)));
}

void Interpreter::run_plain(const CallBlock& form, Scope& scope, std::string& out) {
  const Value caller =
      machine_.own(std::make_unique<Macro>(*this, "caller", form.parameters, form.body, scope));
  const Value result = call(std::get<Call>(form.call->form), form.call->at, scope, &caller);
  print(text_of(machine_, result), out);
}

void Interpreter::run_plain(const FilterBlock& form, Scope& scope, std::string& out) {
  print(text_of(machine_, filtered_text(form.filter.get(), scope, inner_text(form.body, scope))), out);
}

void Interpreter::run_plain(const Generation& form, Scope& scope, std::string& out) {
  Inner inner(*this, scope, form.body);
  run(form.body.statements, inner.scope(), out);
}

void Interpreter::run_plain(const For& form, Scope& scope, std::string& out) {
  const Value list = evaluate(*form.list, scope);
  const Machine::Level level(machine_);
  auto owned = std::make_unique<Loop>(loop_items(form, scope, list));
  auto& state = *owned;
  const Value loop_value = machine_.own(std::move(owned));
  bool finished = false;  // whether the body ran, which decides Jinja's `else`
  for (; state.at() < state.length(); state.advance()) {
    Inner inner(*this, scope, form.body);
    inner.scope().set("loop", loop_value);
    assign(form.target, inner.scope(), state.item());
    const auto flow = run(form.body.statements, inner.scope(), out);
    if (flow == Flow::leave_loop) break;
    finished |= flow == Flow::go_on;
  }
  if (finished) return;
  Inner inner(*this, scope, form.otherwise);
  run(form.otherwise.statements, inner.scope(), out);
}

std::shared_ptr<const List> Interpreter::loop_items(const For& loop, const Scope& scope, const Value& list) {
  const auto* items = list.as<std::shared_ptr<const List>>();
  if (items && (*items)->kind != ListKind::generator && !loop.condition) return *items;
  std::vector<Value> chosen;
  for (auto& item : items_of(machine_, list)) {
    if (loop.condition) {
      Inner inner(*this, scope);
      assign(loop.target, inner.scope(), item);
      if (!is_true(evaluate(*loop.condition, inner.scope()))) continue;
    }
    chosen.push_back(std::move(item));
  }
  return *machine_.list(std::move(chosen)).as<std::shared_ptr<const List>>();
}

void Interpreter::assign(const Target& target, Scope& scope, Value value) {
  machine_.at(target.at);
  machine_.step(1 + scope.names.size() / 8);
  if (target.takes_apart) {
    require_defined(machine_, value);
    const auto parts = items_of(machine_, value);
    if (parts.size() != target.parts.size()) {
      machine_.fail(fmt::format("{} values cannot be given to {} names", parts.size(), target.parts.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], scope, parts[i]);
    return;
  }
  if (target.member.empty()) {
    if (scope.kept) machine_.charge(kNameBytes);  // the memory of other scopes is reused
    return scope.set(target.name, std::move(value));
  }
  const Value owner = name({target.name}, scope);
  const auto* space = owner.as<Namespace*>();
  if (!space)
    machine_.fail(fmt::format("'{}' has no members that can be set; expected a namespace, got {}",
                              printable(target.name), type_name(owner)));
  if (target.member.starts_with('_'))
    machine_.fail("a namespace's member begins with an underscore; expected another name");
  if (auto* member = (*space)->find(target.member)) {
    *member = std::move(value);
  } else {
    machine_.charge(kNameBytes + target.member.size());
    (*space)->members.emplace_back(target.member, std::move(value));
  }
}

}  // namespace hooked::text::jinja
