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

/// What is needed to resolve indices: the layout of the activation and the rows' last real tokens.
struct AxisContext {
  Site site;                  ///< whose axes the value has
  std::string where;          ///< the activation's name, for errors
  at::Tensor last_positions;  ///< [batch] int64, or undefined: every row ends at the last column
  /// For recorded work: the indices on some axes, [place] int64 each, in tensors on the value's
  /// device. They are read instead of the numbers in the indices of these axes, in the same number and
  /// order.
  std::vector<std::pair<Axis, at::Tensor>> places_there = {};
};

/// One axis of an activation, with its size in this run.
struct AxisPlace {
  const AxisContext& context;  ///< for errors, and for `last`
  Axis axis;                   ///< which one
  std::int64_t size;           ///< its current size
  /// Indices below this are allowed although they do not exist yet, because the sequence is still growing.
  std::optional<std::int64_t> limit = std::nullopt;

  /// One past the largest allowed index.
  std::int64_t end() const { return limit.value_or(size); }
};

/// The absolute positions on an axis that an index (not `last`) means. Throws HookError if one is out of
/// range.
std::vector<std::int64_t> resolve_places(const AxisIndex& index, const AxisPlace& place);

/// The block of `value` that `indices` pick. A single number drops its axis; a view if possible. Throws
/// HookError with the axis, its size and the index if one is out of range.
at::Tensor take_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context);

/// Writes `block`, broadcast, into that block of `value`; if that is a view, only the block is touched.
void write_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context,
                 const at::Tensor& block);

/// A copy of `value` with that block replaced by `block`, broadcast. Differentiable in both.
at::Tensor with_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context,
                      const at::Tensor& block);

}  // namespace hooked
