#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hooked/hooks/activation_cache.h"

namespace hooked {

/// Which token of a cached run.
struct TokenPlace {
  std::int64_t row;       ///< batch row
  std::int64_t position;  ///< absolute, negative from the end
};

/// What `cache` holds for one token at a site with a batch and a pos axis: those two axes are dropped.
/// Throws HookError when the activation is not there, the row or position is out of range, or the position
/// was not kept.
at::Tensor read_token(const ActivationCache& cache, const Address& address, TokenPlace place);

/// Throws HookError unless the cache holds all positions of that activation: `what` needs them.
void require_all_positions(const ActivationCache& cache, const ActivationName& name, const char* what);

}  // namespace hooked
