#pragma once

#include <array>

#include "hooked/harvest/activation_stream.h"

namespace hooked {

/// What is kept of the token of each row, by its key in a shard.
struct TokenColumn {
  const char* key;
  at::Tensor ActivationRows::*column;
  at::ScalarType dtype;
};
inline constexpr std::array kTokenColumns = {TokenColumn{"tokens", &ActivationRows::tokens, at::kInt},
                                             TokenColumn{"documents", &ActivationRows::documents, at::kLong},
                                             TokenColumn{"offsets", &ActivationRows::offsets, at::kLong},
                                             TokenColumn{"positions", &ActivationRows::positions, at::kInt},
                                             TokenColumn{"contexts", &ActivationRows::contexts, at::kInt}};

}  // namespace hooked
