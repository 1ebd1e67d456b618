#pragma once

// What the public headers declare, as python/generate.py reads it from them: the members of structs, the
// enumerators of enums, and the documentation of everything.

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/hooked.h"

namespace hooked::python {

/// A member of a struct.
template <typename T>
struct Field {
  const char* name;
  T member;
};

/// The data members of a struct, in the order of their declaration: a tuple of Field.
template <typename T>
struct Fields {};

/// The enumerators of an enum: an array of pairs of name and value.
template <typename T>
struct Enumerators {};

/// The documentation of `RunOptions::edits`, `sweep` or `Grid`; of overloads, one after the other. Throws an
/// Error for a name that no header declares.
const char* documentation(std::string_view name);

/// The documentation of a function with that of each of its options, which lives as long as the program.
const char* documentation_with_options(std::string_view name, std::string_view options);

/// The names of a struct's members.
template <typename Struct>
std::vector<const char*> field_names() {
  return std::apply([](const auto&... field) { return std::vector<const char*>{field.name...}; },
                    Fields<Struct>::list);
}

/// The enumerator of that name. Throws ConfigError with all of them.
template <typename T>
T enumerator_named(std::string_view name) {
  std::string known;
  for (const auto& [text, value] : Enumerators<T>::list) {
    if (name == text) return value;
    known += (known.empty() ? "'" : ", '") + std::string(text) + "'";
  }
  throw ConfigError(Enumerators<T>::type,
                    "'" + std::string(name) + "' is not known; expected one of " + known);
}

}  // namespace hooked::python

#include "python/fields.inc"
