#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "analysis/stream/stream_path.h"

namespace hooked {

/// Measures of some parts at the end of a path.
struct PartMeasures {
  std::int64_t first;                            ///< the number of the first of these among the path's parts
  at::Tensor along;                              ///< [part, row, pos, direction]: read along directions
  std::function<at::Tensor()> square_of_length;  ///< [part, row, pos], computed on request
};

/// Calls `use` with the parts of one writing after another, and last with the remainder (as in part_axis()):
/// `whole` [row, pos, d_model] minus all parts. Reads along `directions` [row, pos, direction, d_model]. No
/// neuron and no head is built as a vector.
void measure_parts(const StreamPath& path, const at::Tensor& whole, const at::Tensor& directions,
                   const std::function<void(const PartMeasures& measures)>& use);

}  // namespace hooked
