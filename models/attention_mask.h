#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <limits>
#include <utility>

namespace hooked {

/// The score of a key that attention is forbidden.
inline constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// Which keys each query may attend to, and what scores get by distance. Its forms are made when they are
/// first read, and kept for the other layers that share it: a mask of a long run is large, and plain causal
/// attention reads none. Belongs to one run, and so to one thread.
class AttentionMask {
 public:
  using Make = std::function<at::Tensor()>;

  /// Forbids nothing.
  AttentionMask() = default;
  /// Null for what there is none of. Shapes as of `blocked` and `bias`.
  AttentionMask(Make blocked, Make bias) : make_blocked_(std::move(blocked)), make_bias_(std::move(bias)) {}

  /// [1 or batch, 1, query, key] bool, true where attention is forbidden; undefined: nowhere.
  const at::Tensor& blocked() const;
  /// What is added to the scores, [1 or batch, head, query, key]; undefined: nothing.
  const at::Tensor& bias() const;
  /// Both in one, for kernels that add it: [1 or batch, 1 or head, query, key] of the scores' dtype, -inf
  /// where attention is forbidden; undefined: neither.
  const at::Tensor& summand(at::ScalarType dtype) const;

 private:
  Make make_blocked_;
  Make make_bias_;
  mutable at::Tensor blocked_, bias_, summand_;
};

}  // namespace hooked
