#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "analysis/stream/stream_path.h"

namespace hooked {

/// Which tokens of a run each expert of a mixture got, and what its output was multiplied by for them.
class ExpertTokens {
 public:
  /// Throws HookError unless the run kept the router's weights and choices at all positions.
  ExpertTokens(std::int32_t layer, const RunReading& run);

  /// The weight of an expert's output for each token, [row, pos, 1] float64; 0 if it did not get the token.
  at::Tensor weight(std::int32_t expert) const;
  /// An activation [routed, width] of one expert times the weight of its output, by token: [row, pos, width]
  /// float64, 0 if it did not get the token.
  at::Tensor weighted(const Address& activation) const;

 private:
  at::Tensor places_of(std::int64_t expert) const;
  at::Tensor at_columns(const at::Tensor& by_token) const;

  const RunReading& run_;
  ActivationName indices_;
  std::int64_t batch_, length_, ranks_;
  at::Tensor owners_;   // [rank * batch * pos] int64, by rank first; -1 for padding
  at::Tensor weights_;  // [rank * batch * pos] float64
};

}  // namespace hooked
