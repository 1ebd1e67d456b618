#pragma once

// How structs and functions of the library become classes and functions of the module, from what the headers
// declare.

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "python/src/casters.h"

namespace hooked::python {

using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;

template <typename Member>
struct MemberType;
template <typename Class, typename Type>
struct MemberType<Type Class::*> {
  using type = Type;
};
template <typename F>
using FieldType = typename MemberType<decltype(F::member)>::type;

/// Calls `visit` with each member that Python sets: with a Field.
template <typename Struct, typename Visit>
void for_each_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, Fields<Struct>::list);
}

template <typename Function>
struct Signature : Signature<decltype(&Function::operator())> {};
template <typename Class, typename Result, typename... Arguments>
struct Signature<Result (Class::*)(Arguments...) const> {
  using arguments = std::tuple<Arguments...>;
};

template <typename Tuple, std::size_t Drop>
struct WithoutLast;
template <typename... Types, std::size_t Drop>
struct WithoutLast<std::tuple<Types...>, Drop> {
  template <std::size_t... I>
  static std::tuple<std::tuple_element_t<I, std::tuple<Types...>>...> take(std::index_sequence<I...>);
  using type = decltype(take(std::make_index_sequence<sizeof...(Types) - Drop>()));
};

/// A struct from keyword arguments.
template <typename Struct, typename... Values>
Struct filled(Struct options, Given<Values>&... values) {
  std::apply([&](const auto&... field) { (values.put(options.*(field.member)), ...); }, Fields<Struct>::list);
  return options;
}

/// `Name(member=value, ...)`, of the members that differ from None.
std::string repr_of(nb::handle object, const std::vector<const char*>& members);

/// `function(first..., options)` as a Python function of `first...` and the options by keyword. `where` is a
/// module or a class; the arguments before the options are described by `named`.
template <typename Options, typename Where, typename Function, typename... First, typename... F,
          typename... Named>
void define_with(Where& where, const char* name, Function function, std::tuple<First...>*,
                 const std::tuple<F...>& fields, const char* doc, const Named&... named) {
  std::apply(
      [&](const auto&... field) {
        where.def(
            name,
            [function](First... first, Given<FieldType<F>>... values) {
              return function(std::forward<First>(first)..., filled(Options{}, values...));
            },
            named..., nb::kw_only(), (nb::arg(field.name) = nb::none())..., ReleaseGil(), doc);
      },
      fields);
}

/// Where static functions of a class are defined.
template <typename Class>
struct StaticScope {
  Class& of;
  template <typename... Arguments>
  void def(const char* name, Arguments&&... arguments) {
    of.def_static(name, std::forward<Arguments>(arguments)...);
  }
};

/// The same, with the function's last parameter as the options. The docstring is that of `declared` and of
/// the options.
template <typename Where, typename Function, typename... Named>
void define(Where& where, const char* name, std::string_view declared, Function function,
            const Named&... named) {
  using Arguments = typename Signature<Function>::arguments;
  using Options = std::remove_cvref_t<std::tuple_element_t<std::tuple_size_v<Arguments> - 1, Arguments>>;
  using First = typename WithoutLast<Arguments, 1>::type;
  define_with<Options>(where, name, function, static_cast<First*>(nullptr), Fields<Options>::list,
                       documentation_with_options(declared, Fields<Options>::type), named...);
}

/// A function that computes and has no options.
template <typename Where, typename Function, typename... Extra>
void define_plain(Where& where, const char* name, std::string_view declared, Function function,
                  const Extra&... extra) {
  where.def(name, function, extra..., ReleaseGil(), documentation(declared));
}

/// A struct whose members Python reads, under the name that C++ has for it or `name`.
template <typename Struct>
nb::class_<Struct> bind_result(nb::module_& module, const char* name = Fields<Struct>::type) {
  nb::class_<Struct> result(module, name, documentation(Fields<Struct>::type));
  for_each_field<Struct>([&](const auto& field) {
    result.def_ro(field.name, field.member,
                  documentation(std::string(Fields<Struct>::type) + "::" + field.name));
  });
  result.def("__repr__", [](nb::handle self) { return repr_of(self, field_names<Struct>()); });
  return result;
}

/// A struct that Python makes by keyword, and whose members it reads and sets. None is each member's default.
template <typename Struct>
nb::class_<Struct> bind_struct(nb::module_& module, const char* name = Fields<Struct>::type) {
  nb::class_<Struct> result(module, name, documentation(Fields<Struct>::type));
  std::apply(
      [&](const auto&... field) {
        result.def(
            "__init__",
            [](Struct* self, Given<FieldType<std::remove_cvref_t<decltype(field)>>>... values) {
              new (self) Struct(filled(Struct{}, values...));
            },
            nb::kw_only(), (nb::arg(field.name) = nb::none())...);
        (result.def_prop_rw(
             field.name, [member = field.member](const Struct& self) { return self.*member; },
             [member = field.member](Struct& self,
                                     Given<FieldType<std::remove_cvref_t<decltype(field)>>> value) {
               self.*member = value.given() ? value.take() : Struct{}.*member;
             },
             nb::arg("value").none(), documentation(std::string(Fields<Struct>::type) + "::" + field.name)),
         ...);
      },
      Fields<Struct>::list);
  result.def("__repr__", [](nb::handle self) { return repr_of(self, field_names<Struct>()); });
  return result;
}

/// An enum, whose values Python also takes by their names.
template <typename Enum>
nb::enum_<Enum> bind_enum(nb::module_& module, const char* name = Enumerators<Enum>::type) {
  nb::enum_<Enum> result(module, name, documentation(Enumerators<Enum>::type));
  for (const auto& [text, value] : Enumerators<Enum>::list)
    result.value(text, value, documentation(std::string(Enumerators<Enum>::type) + "::" + text));
  return result;
}

}  // namespace hooked::python
