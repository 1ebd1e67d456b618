#pragma once

#include "models/kernels/loops/packed_columns.h"

namespace hooked::kernels {
namespace {

// bfloat16 for processors with an instruction that adds the products of two inputs; the set defines it.
struct Bfloat16Pairs : Bfloat16Elements {
  using Weights = Words;
  using Input = Words;
  [[gnu::always_inline]] static Input input(const Element* x) { return word_at(x); }
  [[gnu::always_inline]] static Weights weights(const Element* w) { return words_at(w); }
  [[gnu::always_inline]] static void add(Floats& sum, const Weights& w, const Input& x) {
    sum = with_products_of_pairs(sum, w, x);
  }
};

}  // namespace
}  // namespace hooked::kernels
