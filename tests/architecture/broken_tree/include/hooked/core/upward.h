// Part of a tree that breaks every rule of the room table; only tests/architecture reads it.
#pragma once

#include "core/private.h"
#include "hooked/engine/engine.h"

namespace hooked {
int upward();

struct Twice {
  const int& of_both() const { return number; }
  const int& without_a_twin() const& { return number; }
  int number;
};

template <int I>
const int& part_of(const Twice& twice) {
  return twice.number;
}
}  // namespace hooked
