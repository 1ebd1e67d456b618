#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Maps of the stream by which a lens reads each of its points as what it will have become at the end. Fitted
/// by others, on the weights of a model as they were published: load such a model with
/// WeightProcessing::none().
struct LensMaps {
  /// One point's: x becomes x matrix^T + bias, and for a tuned lens x besides.
  struct Map {
    at::Tensor matrix;     ///< [d_model, d_model], [out, in]
    at::Tensor bias = {};  ///< [d_model]; undefined: none
    bool adds = false;     ///< whether x itself is added

    /// `x` [.., d_model] float64.
    at::Tensor operator()(const at::Tensor& x) const;
  };
  /// By the number of blocks that have run: 0 is the embedding, n_layers the end.
  std::map<std::int64_t, Map> by_depth;

  /// Reads a safetensors file of
  /// - a tuned lens (Belrose et al. 2023): `0.weight` [d_model, d_model] and `0.bias` [d_model] of the stream
  ///   before block 0, and so on, which add x A^T + b to x;
  /// - a Jacobian lens (Anthropic's and TransformerLens's artifacts): `J.0` [d_model, d_model] of the stream
  ///   behind block 0, and so on, or all of them in `J` [layer, d_model, d_model] with int64 `source_layers`,
  ///   by which x becomes J x.
  /// Throws IoError, and CheckpointError naming a tensor that is neither, misshapen or missing.
  static LensMaps load(const std::filesystem::path& file);
};

}  // namespace hooked
