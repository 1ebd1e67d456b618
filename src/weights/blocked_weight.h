#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hooked/core/axis.h"
#include "io/tensors/stored_tensor.h"

namespace hooked::weights {

/// A matrix with its two dimensions exchanged.
StoredTensor transposed(StoredTensor matrix);

/// A weight and the changes to it, in float64, block by block. Scaling and centring are recorded and happen
/// whenever blocks are read, so that a matrix never exists in float64. A mean over the dimension that blocks
/// are cut along takes a separate pass.
///
/// Its dimensions are known by name, so that no code infers the meaning of an axis from its size: d_mlp may
/// equal d_model, and d_vocab may equal either.
class BlockedWeight {
 public:
  BlockedWeight(StoredTensor stored, AxisList axes);

  at::ScalarType stored_dtype() const noexcept { return stored_.dtype; }
  const std::vector<std::int64_t>& shape() const noexcept { return stored_.shape; }
  at::Device device() const noexcept { return stored_.device; }

  /// Multiplies every slice along `along` by its entry of `factors` [along].
  void scale(Axis along, const at::Tensor& factors);

  /// Subtracts its mean over `over`.
  void center(Axis over);

  /// The same, and returns that mean, which takes a separate pass: the layout without that axis.
  at::Tensor take_mean(Axis over);

  /// Its mean over `over`: the layout without that axis.
  at::Tensor mean(Axis over) const;

  /// Sum over the axes `over` of each entry times that of `coefficients`, which has those axes in the
  /// weight's order: the layout without them.
  at::Tensor weighted_sum(const AxisList& over, const at::Tensor& coefficients) const;

  /// The matrix with its two axes exchanged.
  BlockedWeight transposed() const;

  /// The same numbers with other axes of the same sizes.
  BlockedWeight with_axes(const AxisList& axes) const;

  /// All of it in float64, in fresh memory.
  at::Tensor values() const;

  /// Rounds it to `dtype` and writes all of it.
  void write(const WriteStretch& write, at::ScalarType dtype) const;

 private:
  /// A change, broadcast over the weight.
  struct Change {
    enum class Kind { multiply, subtract, center } kind;
    at::Tensor operand;          ///< of multiply and subtract: the weight's rank, float64
    std::int64_t dimension = 0;  ///< of center
  };

  std::int64_t dimension_of(Axis axis) const;
  at::Tensor shaped(const AxisList& over, const at::Tensor& coefficients) const;
  at::Tensor here(const at::Tensor& operand, std::int64_t first, std::int64_t count) const;
  /// As for_each_block, with blocks in float64 that `use` may write into.
  void for_each_changed(const std::function<void(const TensorBlock& block)>& use) const;

  StoredTensor stored_;
  AxisList axes_;
  std::vector<Change> changes_;
};

}  // namespace hooked::weights
