#pragma once

// How functions are spelled in docstrings and stubs: `def run(self, input: InputLike, *, eager: bool =
// False)`.

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "python/src/casters.h"

namespace hooked::python {

/// A signature that grows by one parameter after the other.
class SignatureText {
 public:
  explicit SignatureText(const char* name) : text_("def " + std::string(name) + "(") {}

  void add_self() { append("self"); }
  /// A parameter; `fallback` is its default, as Python writes it.
  void add(std::string_view name, std::string type, const std::optional<std::string>& fallback);
  /// The parameters from here on are given by keyword.
  void keywords_follow();
  /// The whole signature.
  std::string returning(const std::string& type) const { return text_ + ") -> " + type; }

 private:
  void append(std::string_view part);

  std::string text_;
  bool keywords_ = false;
};

/// nanobind's description of a type as text. `%` stands for one of `types`, `@a@b@` for `a`, or `b` if
/// `returned`.
std::string described(std::string_view description, const std::type_info** types, bool returned);

template <typename T, bool returned = false>
std::string type_text() {
  static constexpr auto description = nb::detail::make_caster<T>::Name;
  const std::type_info* types[description.type_count() + 1];
  description.put_types(types);
  return described(std::string_view(description.text, description.size()), types, returned);
}

/// The type of a function's result.
template <typename T>
std::string result_text() {
  if constexpr (std::is_void_v<T>)
    return "None";
  else
    return type_text<std::remove_cvref_t<T>, true>();
}

/// `def member(self) -> type`, or with an argument `value` of a type.
std::string member_signature(std::string_view name, const std::string& returned, const std::string& value);

/// A default as Python writes it: numbers, words and enumerators; None for everything else.
template <typename T>
std::string default_text(const T& value) {
  if constexpr (requires { value.has_value(); }) {
    return value ? default_text(*value) : "None";
  } else if constexpr (std::is_enum_v<T> && requires { Enumerators<T>::list; }) {
    for (const auto& [name, one] : Enumerators<T>::list) {
      if (one == value) return "'" + std::string(name) + "'";
    }
    return "None";
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return nb::repr(nb::cast(value)).c_str();
  } else {
    return "None";
  }
}

}  // namespace hooked::python
