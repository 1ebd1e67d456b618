#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/axis.h"
#include "hooked/core/export.h"
#include "hooked/hooks/address.h"

namespace HOOKED_EXPORT hooked {

/// What indices are resolved with: the layout of the activation and the rows' last real tokens.
struct AxisContext {
  Site site;                  ///< whose axes the value has
  std::string where;          ///< the activation's name, for errors
  at::Tensor last_positions;  ///< [batch] int64, or undefined: every row ends at the last column
  /// For work that is recorded: the places on some axes, [place] int64 each, as numbers on the value's
  /// device. They are read instead of the numbers in the indices of these axes, as many and in the same
  /// order.
  std::vector<std::pair<Axis, at::Tensor>> places_there = {};
};

/// One axis of an activation, with its size in this run.
struct AxisPlace {
  const AxisContext& context;  ///< for errors, and for `last`
  Axis axis;                   ///< which one
  std::int64_t size;           ///< places it has now
  /// Places up to here may be named although they do not exist yet, because the sequence is still growing.
  std::optional<std::int64_t> limit = std::nullopt;

  /// One past the last place that may be named.
  std::int64_t end() const { return limit.value_or(size); }
};

/// The absolute places that an index (not `last`) means on an axis. Throws HookError when one is out of
/// range.
std::vector<std::int64_t> resolve_places(const AxisIndex& index, const AxisPlace& place);

/// The block of `value` that `indices` pick out. One number drops its axis; views where possible. Throws
/// HookError naming the axis, its size and the index when one is out of range.
at::Tensor take_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context);

/// Writes `block` (broadcast to it) into that block of `value`, in the time of the block where it is a view.
void write_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context,
                 const at::Tensor& block);

/// A copy of `value` in which that block is `block` (broadcast to it). Differentiable in both.
at::Tensor with_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context,
                      const at::Tensor& block);

}  // namespace hooked
