#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "analysis/stream/stream_path.h"

namespace hooked {

/// Numbers of some parts as they stand at the end of a path.
struct PartMeasures {
  std::int64_t first;                            ///< which part of the path's parts is the first of these
  at::Tensor along;                              ///< [part, row, pos, direction]: read along directions
  std::function<at::Tensor()> square_of_length;  ///< [part, row, pos], computed when it is asked for
};

/// Calls `use` for one writing's parts after the other, and for the remainder, which stands behind them (as
/// part_axis() has it): what `whole` [row, pos, d_model] is besides. Reads along `directions` [row, pos,
/// direction, d_model]. No neuron and no head is made as a vector.
void measure_parts(const StreamPath& path, const at::Tensor& whole, const at::Tensor& directions,
                   const std::function<void(const PartMeasures& measures)>& use);

}  // namespace hooked
