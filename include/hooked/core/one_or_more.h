#pragma once

#include <concepts>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A list for which one element may stand: `.edits = zero(act::z(1))`, `.edits = {zero(act::z(1)), ...}`, or
/// a vector. What makes an element from two values makes a list of one from them.
template <typename T>
class OneOrMore : public std::vector<T> {
 public:
  /// None.
  OneOrMore() = default;
  /// One.
  template <typename V>
  requires(std::convertible_to<V, T> && !std::derived_from<std::remove_cvref_t<V>, std::vector<T>>)
      OneOrMore(V&& one) {  // NOLINT: one is a list too
    this->push_back(T(std::forward<V>(one)));
  }
  /// One, from what a constructor makes it of; not from the members of a struct.
  template <typename A, typename B>
  requires(std::constructible_from<T, A, B> && !std::is_aggregate_v<T>) OneOrMore(A&& a, B&& b) {
    this->emplace_back(std::forward<A>(a), std::forward<B>(b));
  }
  /// Those of a range.
  template <std::input_iterator I>
  OneOrMore(I first, I last) : std::vector<T>(first, last) {}
  /// Several.
  OneOrMore(std::initializer_list<T> several) : std::vector<T>(several) {}
  /// The same.
  OneOrMore(std::vector<T> several) : std::vector<T>(std::move(several)) {}  // NOLINT
};

}  // namespace hooked
