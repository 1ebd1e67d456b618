// Jinja's tests: the names after `is`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

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

Value remainder(Machine& machine, const Value& value, std::int64_t divisor) {
  return arithmetic(machine, Arithmetic::modulo, value, divisor);
}

template <std::int64_t rest>
Value parity_test(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "odd and even", arguments, {});
  return equal(machine, remainder(machine, value, 2), rest);
}

Value divisible_test(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "divisibleby", arguments, {"num"});
  return equal(machine, arithmetic(machine, Arithmetic::modulo, value, given.required(0)), std::int64_t{0});
}

Value same_test(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound given(machine, "sameas", arguments, {"other"});
  const Value& other = given.required(0);
  if (value.index() != other.index()) return false;
  if (value.list()) return value.list() == other.list();
  if (value.dict()) return value.dict() == other.dict();
  return equal(machine, value, other);
}

template <const MethodRow* (*find)(std::string_view)>
Value named_test(Machine& machine, const Value& value, const Arguments& arguments) {
  (void)Bound(machine, "this test", arguments, {});
  return value.text() && find(*value.text()) != nullptr;
}

template <bool upper>
Value case_test(Machine& machine, const Value& value, const Arguments& arguments) {
  const Value text = machine.text(text_of(machine, value));
  return find_text_method(upper ? "isupper" : "islower")->function(machine, text, arguments);
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
  return value.text() || value.dict() || value.is<Undefined>() ||
         (list &&
          (list->kind == ListKind::list || list->kind == ListKind::tuple || list->kind == ListKind::range));
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
    {"divisibleby", divisible_test},
    {"eq", comparing_test<Comparison::equal>},
    {"equalto", comparing_test<Comparison::equal>},
    {"escaped", nullptr},
    {"even", parity_test<0>},
    {"false", plain_test<is_the_false>},
    {"filter", named_test<find_filter>},
    {"float", plain_test<is_float>},
    {"ge", comparing_test<Comparison::greater_equal>},
    {"greaterthan", comparing_test<Comparison::greater>},
    {"gt", comparing_test<Comparison::greater>},
    {"in", comparing_test<Comparison::in>},
    {"integer", plain_test<is_integer>},
    {"iterable", plain_test<is_some_iterable>},
    {"le", comparing_test<Comparison::less_equal>},
    {"lessthan", comparing_test<Comparison::less>},
    {"lower", case_test<false>},
    {"lt", comparing_test<Comparison::less>},
    {"mapping", plain_test<is_mapping>},
    {"ne", comparing_test<Comparison::not_equal>},
    {"none", plain_test<is_none>},
    {"number", plain_test<is_some_number>},
    {"odd", parity_test<1>},
    {"sameas", same_test},
    {"sequence", plain_test<is_sequence>},
    {"string", plain_test<is_string>},
    {"test", named_test<find_test>},
    {"true", plain_test<is_the_true>},
    {"undefined", plain_test<is_undefined>},
    {"upper", case_test<true>},
};

}  // namespace

const MethodRow* find_test(std::string_view name) {
  const auto found = std::ranges::find(kTests, name, &MethodRow::name);
  return found == std::end(kTests) ? nullptr : &*found;
}

}  // namespace hooked::text::jinja
