#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hooked/engine/hooked_transformer.h"

namespace addition {

/// Pairs of numbers below p as the model reads them, "a b =", where "=" is token p.
struct Pairs {
  at::Tensor tokens;  ///< [pair, 3]
  at::Tensor sums;    ///< [pair], a + b mod p
};

/// All p² pairs, ordered by a, then by b.
Pairs all_pairs(std::int64_t p);

/// [pair]: whether the training sees this pair (two in five do), by a hash, so that any program can tell.
at::Tensor seen_in_training(std::int64_t p);

/// The pairs for which `which` [pair] is true.
Pairs chosen(const Pairs& pairs, const at::Tensor& which);

/// [pair, p], what the model says of each sum: the logits after "=".
at::Tensor sum_logits(const hooked::HookedTransformer& model, const Pairs& pairs);

/// The share of rows whose largest logit is that of the right sum.
double accuracy(const at::Tensor& logits, const at::Tensor& sums);

}  // namespace addition
