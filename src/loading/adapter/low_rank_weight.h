#pragma once

#include <optional>

#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// What an adapter does to one matrix W, [out, in], or [in, out] where it is turned over: W + scale B A; with
/// a magnitude (DoRA) each output's weights are then scaled to that length.
struct LowRankChange {
  SourceTensor a;                         ///< [rank, in]
  SourceTensor b;                         ///< [out, rank]
  std::optional<SourceTensor> magnitude;  ///< [out]
  double scale;
  bool turned;  ///< whether W is [in, out]
};

/// `base` with the change in it, as a source that is read like any other, block by block. It is computed in
/// float64 and rounded to `dtype` once. The shapes have been checked. A and B are held from the first read of
/// the matrix until as many elements as it has were read; lengths are a pass over it of their own.
SourceTensor changed_weight(SourceTensor base, LowRankChange change, at::ScalarType dtype);

/// `base` plus `scale` times `added`, of the same shape, likewise.
SourceTensor changed_bias(SourceTensor base, SourceTensor added, double scale, at::ScalarType dtype);

}  // namespace hooked
