#pragma once

#include <concepts>
#include <iosfwd>
#include <string>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A type that has a `to_string`: names, addresses, indices.
template <typename T>
concept HasText = requires(const T& value) {
  { value.to_string() } -> std::same_as<std::string>;
};

/// Prints what `to_string` gives. Needs the header `<ostream>` where it is used.
template <HasText T>
std::ostream& operator<<(std::ostream& out, const T& value) {
  return out << value.to_string();
}

}  // namespace hooked
