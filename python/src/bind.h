#pragma once

// How structs and functions of the library become classes and functions of the module, from what the headers
// declare.

#include <concepts>
#include <sstream>
#include <tuple>
#include <type_traits>
#include <utility>

#include "python/src/signatures.h"

namespace hooked::python {

// Note [Members]
// Python reads a struct inside a struct as a copy, which is safe however long it is kept. Setting one of the
// copy's members sets it in the original, too: `config.positions.base = 5e5` does what it says.

using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;

template <typename Member>
struct MemberType;
template <typename Class, typename Type>
struct MemberType<Type Class::*> {
  using type = Type;
};
template <typename F>
using FieldType = typename MemberType<decltype(F::member)>::type;

// Throw TypeError: for an option's value of another type, and for an unknown option.
[[noreturn]] void refuse_type(const char* of, const char* option, const std::string& expected,
                              nb::handle got);
[[noreturn]] void refuse_unknown(const char* of, nb::handle given, const std::vector<const char*>& known);
/// The members that Python gave, the first of them by position or by name, by name. Throws TypeError for one
/// that is missing or given twice.
nb::dict by_name(nb::handle positional, nb::handle named, const std::vector<const char*>& required,
                 const char* of);

// Of Note [Members].
void remember_owner(nb::handle object, nb::handle owner, const char* member);
void write_through(nb::handle object);
/// What `pickle` makes a plain value of.
nb::object reduced(nb::handle object, const std::vector<const char*>& members);

/// What C++ prints of a value, for Python's print, which adds the last line's end.
template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  std::string text = std::move(out).str();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

template <typename Function>
struct Signature : Signature<decltype(&Function::operator())> {};
template <typename Class, typename Result, typename... Arguments>
struct Signature<Result (Class::*)(Arguments...) const> {
  using arguments = std::tuple<Arguments...>;
  using result = Result;
};

template <typename Tuple, std::size_t Drop>
struct WithoutLast;
template <typename... Types, std::size_t Drop>
struct WithoutLast<std::tuple<Types...>, Drop> {
  template <std::size_t... I>
  static std::tuple<std::tuple_element_t<I, std::tuple<Types...>>...> take(std::index_sequence<I...>);
  using type = decltype(take(std::make_index_sequence<sizeof...(Types) - Drop>()));
};

/// `Name(member=value, ...)`, of the members that differ from None.
std::string repr_of(nb::handle object, const std::vector<const char*>& members);

/// Sets what Python gave for an option or a member; None leaves it as it is. Throws TypeError for another
/// type.
template <typename T>
void set_option(T& option, nb::handle value, const char* name, const char* of) {
  Given<T> given;
  if (value.is_none()) return;
  if (!given.convert(value)) refuse_type(of, name, type_text<Given<T>>(), value);
  option = given.take();
}

/// The names of the members that a struct cannot be made without.
template <typename Struct>
std::vector<const char*> required_names() {
  std::vector<const char*> names = field_names<Struct>();
  names.resize(required_members<Struct>);
  return names;
}

/// The options that Python gave by keyword to `of`, the name of a function or a struct. Throws TypeError for
/// an unknown one.
template <typename Options>
Options options_from(nb::handle given, const char* of) {
  Options options = blank<Options>();
  std::size_t left = nb::len(given);
  Fields<Options>::visit([&](const auto& field) {
    put_progress(options.*(field.member));
    if (left == 0) return;
    const nb::handle value = PyDict_GetItemString(given.ptr(), field.name);
    if (!value.is_valid()) return;
    set_option(options.*(field.member), value, field.name, of);
    --left;
  });
  if (left > 0) refuse_unknown(of, given, field_names<Options>());
  return options;
}

/// Adds the options to a signature, with their defaults.
template <typename Options>
void add_options(SignatureText& text, bool positional = false) {
  const Options defaults = blank<Options>();
  std::size_t required = required_members<Options>;
  Fields<Options>::visit([&](const auto& field) {
    using Member = FieldType<std::remove_cvref_t<decltype(field)>>;
    if (required == 0 || !positional) text.keywords_follow();
    if (required > 0) {
      text.add(field.name, type_text<Like<Member>>(), {});
      --required;
    } else {
      text.add(field.name, type_text<Given<Member>>(), default_text(defaults.*(field.member)));
    }
  });
}

/// `function(first..., options)` as a Python function of `first...` and the options by keyword. `where` is a
/// module or a class; the arguments before the options are described by `named`.
template <typename Options, typename Where, typename Function, typename... First, typename... Named>
void define_with(Where& where, const char* name, Function function, std::tuple<First...>*, const char* doc,
                 const Named&... named) {
  using Result = typename Signature<Function>::result;
  SignatureText text(name);
  std::vector<std::string> types = {type_text<std::remove_cvref_t<First>>()...};
  if constexpr (!std::is_same_v<Where, nb::module_> && !requires { typename Where::Static; }) {
    text.add_self();
    types.erase(types.begin());
  }
  auto type = types.begin();
  [[maybe_unused]] const auto add = [&](const auto& one) {  // not used where no argument is named
    using Annotation = std::remove_cvref_t<decltype(one)>;
    if constexpr (std::is_same_v<Annotation, nb::kw_only>) {
      text.keywords_follow();
    } else if constexpr (nb::detail::arg_traits<Annotation>::has_default) {
      text.add(one.name_, *type++, nb::repr(one.value).c_str());
    } else {
      text.add(one.name_, *type++, {});
    }
  };
  (add(named), ...);
  add_options<Options>(text);
  where.def(
      name,
      [function, name](First... first, nb::kwargs given) -> Result {
        Options options =
            options_from<Options>(by_name(nb::tuple(), given, required_names<Options>(), name), name);
        const nb::gil_scoped_release released;
        return function(std::forward<First>(first)..., std::move(options));
      },
      named..., nb::arg("options"), nb::sig(text.returning(result_text<Result>()).c_str()), doc);
}

/// Where static functions of a class are defined.
template <typename Class>
struct StaticScope {
  using Static = void;
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
  define_with<Options>(where, name, function, static_cast<First*>(nullptr),
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
nb::class_<Struct> bind_result(nb::handle module, const char* name = Fields<Struct>::type) {
  nb::class_<Struct> result(module, name, documentation(Fields<Struct>::type));
  Fields<Struct>::visit([&](const auto& field) {
    result.def_ro(field.name, field.member,
                  documentation(std::string(Fields<Struct>::type) + "::" + field.name));
  });
  result.def("__repr__", [](nb::handle self) { return repr_of(self, field_names<Struct>()); });
  return result;
}

/// What Python reads of a member. A struct inside a struct remembers where it is from (Note [Members]).
template <typename T>
nb::object member_object(const T& value, nb::handle owner, const char* name) {
  if constexpr (requires { value.has_value(); }) {
    return value ? member_object(*value, owner, name) : nb::none();
  } else if constexpr (requires { value.valueless_by_exception(); }) {
    return std::visit([&](const auto& one) { return member_object(one, owner, name); }, value);
  } else {
    nb::object object = nb::cast(value);
    if constexpr (requires { Fields<T>::type; }) remember_owner(object, owner, name);
    return object;
  }
}

/// An attribute that is a copy of a struct, of an object that never changes: setting it, or a member of the
/// copy (Note [Members]), is refused.
template <typename Class, typename Get>
void unchanging(nb::class_<Class>& of, const char* name, const std::string& declared, Get get,
                const char* refusal) {
  using Struct = std::remove_cvref_t<typename Signature<Get>::result>;
  of.def_prop_rw(
      name,
      [get, name](nb::handle self) { return member_object(get(nb::cast<const Class&>(self)), self, name); },
      [refusal](nb::handle, const Struct&) { throw nb::attribute_error(refusal); },
      nb::for_getter(nb::sig(member_signature(name, result_text<Struct>(), "").c_str())),
      documentation(declared));
}

/// A struct that Python makes by keyword, and whose members it reads and sets. None is each member's default.
template <typename Struct>
nb::class_<Struct> bind_struct(nb::handle module, const char* name = Fields<Struct>::type) {
  nb::class_<Struct> result(module, name, nb::dynamic_attr(), documentation(Fields<Struct>::type));
  SignatureText text("__init__");
  text.add_self();
  add_options<Struct>(text, true);
  result.def(
      "__init__",
      [name](Struct* self, nb::args positional, nb::kwargs given) {
        const nb::dict named = by_name(positional, given, required_names<Struct>(), name);
        new (self) Struct(options_from<Struct>(named, name));
      },
      nb::arg("positional"), nb::arg("options"), nb::sig(text.returning("None").c_str()));
  Fields<Struct>::visit([&](const auto& field) {
    using Member = FieldType<std::remove_cvref_t<decltype(field)>>;
    const std::string type = type_text<Given<Member>>();
    result.def_prop_rw(
        field.name,
        [field](nb::handle self) {
          return member_object(nb::cast<const Struct&>(self).*(field.member), self, field.name);
        },
        [field, name](nb::handle self, nb::handle value) {
          auto& member = nb::cast<Struct&>(self).*(field.member);
          if (value.is_none()) member = blank<Struct>().*(field.member);
          set_option(member, value, field.name, name);
          write_through(self);
        },
        nb::arg("value").none(),
        nb::for_getter(nb::sig(member_signature(field.name, result_text<Member>(), "").c_str())),
        nb::for_setter(nb::sig(member_signature(field.name, "None", type + " | None").c_str())),
        documentation(std::string(Fields<Struct>::type) + "::" + field.name));
  });
  const std::vector<const char*> members = field_names<Struct>();
  result.def("__repr__", [members](nb::handle self) { return repr_of(self, members); });
  result.def("__copy__", [](const Struct& self) { return Struct(self); });
  if constexpr (std::equality_comparable<Struct>) {  // a plain value
    result.def("__eq__", [](const Struct& a, const Struct& b) { return a == b; })
        .def(
            "__eq__", [](const Struct&, nb::handle) { return false; }, nb::arg().none())
        .def("__deepcopy__", [](const Struct& self, nb::handle) { return Struct(self); })
        .def("__reduce__", [members](nb::handle self) { return reduced(self, members); });
    result.attr("__hash__") = nb::none();
  }
  return result;
}

/// An enum, whose values Python also takes by their names.
template <typename Enum>
nb::enum_<Enum> bind_enum(nb::handle module, const char* name = Enumerators<Enum>::type) {
  nb::enum_<Enum> result(module, name, documentation(Enumerators<Enum>::type));
  for (const auto& [text, value] : Enumerators<Enum>::list)
    result.value(text, value, documentation(std::string(Enumerators<Enum>::type) + "::" + text));
  return result;
}

}  // namespace hooked::python
