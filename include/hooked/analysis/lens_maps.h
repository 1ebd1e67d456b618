#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Maps of the residual stream by which a lens reads each of its points as what it will have become at the
/// end. They were fitted by others to a model's published weights: load such a model with
/// WeightProcessing::none().
struct LensMaps {
  /// The map of one point: x becomes x matrix^T + bias; for a tuned lens x is added.
  struct Map {
    at::Tensor matrix;     ///< [d_model, d_model], [out, in]
    at::Tensor bias = {};  ///< [d_model]; undefined: none
    bool adds = false;     ///< whether x itself is added

    /// `x` [.., d_model] float64.
    at::Tensor operator()(const at::Tensor& x) const;
  };
  /// By the number of blocks that have run: 0 is the embedding, n_layers the end.
  std::map<std::int64_t, Map> by_depth;
  /// The number of blocks before the stream that they map to, if the files say so: that is the end.
  std::optional<std::int64_t> target_depth = std::nullopt;

  /// Reads a file of torch.save's (none of its code is run) or of safetensors, or the only such file of a
  /// folder. It holds one of:
  /// - a tuned lens (Belrose et al. 2023), `params.pt` as the package tuned-lens saves it: `0.weight`
  ///   [d_model, d_model] and, if it has biases, `0.bias` [d_model] for the stream before block 0, and so
  ///   on; these add x A^T + b to x. The config.json of a folder must agree with it;
  /// - a Jacobian lens, `lens.pt` as Anthropic's package, TransformerLens and neuronpedia's collection have
  /// it:
  ///   `J` has a [d_model, d_model] matrix for each block number; for the stream after that block, x
  ///   becomes J x. `source_layers`, `d_model` and `target_layer` must agree with it if they are
  ///   present. In safetensors `J.0` and so on, or all of them in `J` [layer, d_model, d_model] with int64
  ///   `source_layers`.
  /// Matrices keep the dtype they are stored in. Throws IoError, and CheckpointError naming a tensor that is
  /// neither of these, misshapen or missing.
  static LensMaps load(const std::filesystem::path& file_or_folder);
};

}  // namespace hooked
