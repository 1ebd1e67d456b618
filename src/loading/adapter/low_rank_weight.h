#pragma once

#include <optional>

#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// An adapter's change of one matrix W, [out, in], or [in, out] if it is transposed: W + scale B A; with a
/// magnitude (DoRA), each output's weights are then rescaled to that length.
struct LowRankChange {
  SourceTensor a;                         ///< [rank, in]
  SourceTensor b;                         ///< [out, rank]
  std::optional<SourceTensor> magnitude;  ///< [out]
  double scale;
  bool turned;  ///< whether W is [in, out]
};

/// `base` with the change applied, as a source that is read like any other, block by block. It is computed in
/// float64 and rounded to `dtype` once. The shapes have been checked. A and B are kept from the first read of
/// the matrix until all its elements were read; lengths take a separate pass over it.
SourceTensor changed_weight(SourceTensor base, LowRankChange change, at::ScalarType dtype);

/// `base` plus `scale` times `added`, of the same shape, likewise.
SourceTensor changed_bias(SourceTensor base, SourceTensor added, double scale, at::ScalarType dtype);

}  // namespace hooked
