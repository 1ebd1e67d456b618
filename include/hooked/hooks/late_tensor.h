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

/// A tensor that is there, that is on its way from a device, or that is made of others when it is first read
/// and kept from then on.
///
/// Copies share what is made. Whatever is held must not be written into: reading throws HookError where
/// somebody has, and MemoryError where there is no memory for what is made; it can be read again. Reading
/// from several threads is fine.
class LateTensor {
 public:
  /// Undefined.
  LateTensor() = default;
  /// A tensor that is there.
  LateTensor(at::Tensor value);  // NOLINT: a tensor is one that need not be made
  /// One whose numbers are on their way: whoever reads it waits for them. Null: they are there.
  LateTensor(at::Tensor value, std::shared_ptr<Arrival> arrival);
  /// One that is made when it is read.
  explicit LateTensor(Recipe recipe);

  /// The tensor, which is the activation `name`: its errors are about it.
  const at::Tensor value(const ActivationName& name) const;
  /// The block that `indices` pick out, as take_block() gives it. Of a tensor that nobody has read as a whole
  /// only the asked for rows, positions and heads are made, and not kept.
  at::Tensor block(const ActivationName& name, const AxisIndices& indices, const AxisContext& context) const;
  /// Only these places of an axis of rows or positions, which stays where it is: a view, or still to be made.
  LateTensor at(const ActivationName& name, Axis axis, const AxisIndex& index,
                const AxisContext& context) const;
  /// Throws HookError if somebody has written into what is held.
  void require_unchanged(const ActivationName& name) const;

  /// Sizes, dtype and device, which are known before it is made.
  std::vector<std::int64_t> sizes() const;
  /// The dtype.
  at::ScalarType scalar_type() const;
  /// The device.
  c10::Device device() const;
  /// Bytes of the tensor, made or not.
  std::size_t nbytes() const;
  /// Whether the tensor is there or on its way.
  bool made() const;
  /// The tensors that are held: itself (its numbers may still be on their way), or those that it will be made
  /// of.
  std::vector<at::Tensor> held() const;
  /// The same, with every tensor that is held in the form that `form` gives it.
  LateTensor in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const;

 private:
  struct Late;

  /// Waits for numbers that are on their way.
  void await() const;

  at::Tensor given_;
  std::shared_ptr<Arrival> arrival_;
  std::uint32_t version_ = 0;  ///< of the given tensor when it came: writing counts it up
  std::shared_ptr<Late> late_;
};

}  // namespace hooked
