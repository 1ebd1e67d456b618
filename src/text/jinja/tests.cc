// Jinja's tests: the names after `is`.
#include <fmt/format.h>

#include "core/json.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"

namespace hooked::text::jinja {
namespace {

template <bool (*holds)(const Value&)>
Value plain_test(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "this test", arguments, {});
  return holds(value);
}

template <Comparison comparison>
Value comparing_test(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "this test", arguments, {"other"});
  return compare(machine, comparison, value, given.required(0));
}

template <std::int64_t rest>
Value parity_test(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "odd and even", arguments, {});
  return equal(machine, arithmetic(machine, Arithmetic::modulo, value, std::int64_t{2}), rest);
}

bool is_defined(const Value& value) { return !value.is<Undefined>(); }
bool is_undefined(const Value& value) { return value.is<Undefined>(); }
bool is_none(const Value& value) { return value.is<None>(); }
bool is_boolean(const Value& value) { return value.is<bool>(); }
bool is_the_true(const Value& value) { return value.is<bool>() && is_true(value); }
bool is_the_false(const Value& value) { return value.is<bool>() && !is_true(value); }
bool is_integer(const Value& value) { return value.is<std::int64_t>(); }
bool is_float(const Value& value) { return value.is<double>(); }
bool is_some_number(const Value& value) { return is_number(value); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_some_iterable(const Value& value) { return is_iterable(value); }
bool is_callable(const Value& value) {
  return value.is<Callable*>() || value.is<std::shared_ptr<const Method>>();
}
bool is_sequence(const Value& value) {
  const auto* list = value.list();
  return value.text() || value.dict() || value.is<Undefined>() || (list && has_places(*list));
}

constexpr MethodRow kTests[] = {
    {"!=", comparing_test<Comparison::not_equal>},
    {"<", comparing_test<Comparison::less>},
    {"<=", comparing_test<Comparison::less_equal>},
    {"==", comparing_test<Comparison::equal>},
    {">", comparing_test<Comparison::greater>},
    {">=", comparing_test<Comparison::greater_equal>},
    {"boolean", plain_test<is_boolean>},
    {"callable", plain_test<is_callable>},
    {"defined", plain_test<is_defined>},
    {"divisibleby", nullptr},
    {"eq", comparing_test<Comparison::equal>},
    {"equalto", comparing_test<Comparison::equal>},
    {"escaped", nullptr},
    {"even", parity_test<0>},
    {"false", plain_test<is_the_false>},
    {"filter", nullptr},
    {"float", plain_test<is_float>},
    {"ge", comparing_test<Comparison::greater_equal>},
    {"greaterthan", comparing_test<Comparison::greater>},
    {"gt", comparing_test<Comparison::greater>},
    {"in", comparing_test<Comparison::in>},
    {"integer", plain_test<is_integer>},
    {"iterable", plain_test<is_some_iterable>},
    {"le", comparing_test<Comparison::less_equal>},
    {"lessthan", comparing_test<Comparison::less>},
    {"lower", nullptr},
    {"lt", comparing_test<Comparison::less>},
    {"mapping", plain_test<is_mapping>},
    {"ne", comparing_test<Comparison::not_equal>},
    {"none", plain_test<is_none>},
    {"number", plain_test<is_some_number>},
    {"odd", parity_test<1>},
    {"sameas", nullptr},
    {"sequence", plain_test<is_sequence>},
    {"string", plain_test<is_string>},
    {"test", nullptr},
    {"true", plain_test<is_the_true>},
    {"undefined", plain_test<is_undefined>},
    {"upper", nullptr},
};

}  // namespace

bool apply_test(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments) {
  machine.step();
  const auto* row = find_row(kTests, name);
  if (!row) machine.fail(fmt::format("there is no test '{}'; expected one of Jinja's", printable(name)));
  if (!row->function) machine.unsupported(fmt::format("the test '{}'", name));
  return is_true(row->function(machine, value, arguments));
}

}  // namespace hooked::text::jinja
