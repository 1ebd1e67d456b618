#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/axis_block.h"

namespace HOOKED_EXPORT hooked {

class Arrival;
class Recipe;

/// A tensor that is available, that is on its way from a device, or that is computed from others when it is
/// first read and then kept.
///
/// Copies share the computed tensor. Nobody may write into what is held: reading then throws HookError.
/// Reading throws MemoryError if memory does not suffice for the computed tensor; it can be read again.
/// Several threads may read at once.
class LateTensor {
 public:
  /// Undefined.
  LateTensor() = default;
  /// A tensor that is available.
  LateTensor(at::Tensor value);  // NOLINT: a tensor is one that need not be made
  /// One whose numbers are on their way: every reader waits for them. Null: they have arrived.
  LateTensor(at::Tensor value, std::shared_ptr<Arrival> arrival);
  /// One that is computed when it is read.
  explicit LateTensor(Recipe recipe);

  /// The tensor, as the activation `name`, which errors mention.
  const at::Tensor value(const ActivationName& name) const;
  /// The block that `indices` pick, as take_block() returns it. If nobody has read the whole tensor, only the
  /// requested rows, positions and heads are computed, and not kept.
  at::Tensor block(const ActivationName& name, const AxisIndices& indices, const AxisContext& context) const;
  /// Only these indices of a row or position axis, which stays in place: a view, or not computed yet.
  LateTensor at(const ActivationName& name, Axis axis, const AxisIndex& index,
                const AxisContext& context) const;
  /// Throws HookError if somebody has written into what is held.
  void require_unchanged(const ActivationName& name) const;

  /// Sizes, known before it is computed. So are dtype and device.
  std::vector<std::int64_t> sizes() const;
  /// The dtype.
  at::ScalarType scalar_type() const;
  /// The device.
  c10::Device device() const;
  /// Bytes of the tensor, computed or not.
  std::size_t nbytes() const;
  /// Whether the tensor is available or on its way.
  bool made() const;
  /// The tensors that are held: the tensor itself (its numbers may still be on their way), or those that it
  /// will be computed from.
  std::vector<at::Tensor> held() const;
  /// The same, with every held tensor passed through `form`.
  LateTensor in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const;

 private:
  struct Late;

  /// Waits for numbers that are on their way.
  void await() const;

  at::Tensor given_;
  std::shared_ptr<Arrival> arrival_;
  std::uint32_t version_ = 0;  ///< of the given tensor on arrival; writes increase it
  std::shared_ptr<Late> late_;
};

}  // namespace hooked
