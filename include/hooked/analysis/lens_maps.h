#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

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
  /// Behind how many blocks the stream stands that they lead to, where the files say so: the end.
  std::optional<std::int64_t> target_depth = std::nullopt;

  /// Reads a file of torch.save's (of which nothing is run) or of safetensors, or the only such file of a
  /// folder, of
  /// - a tuned lens (Belrose et al. 2023), `params.pt` as the package tuned-lens saves it: `0.weight`
  ///   [d_model, d_model] and, where it has biases, `0.bias` [d_model] of the stream before block 0, and so
  ///   on, which add x A^T + b to x. The config.json of a folder must agree with it;
  /// - a Jacobian lens, `lens.pt` as Anthropic's package, TransformerLens and neuronpedia's collection have
  /// it:
  ///   `J` holds [d_model, d_model] by the number of the block behind which the stream stands, by which x
  ///   becomes J x, and `source_layers`, `d_model` and `target_layer` must agree with it where they are
  ///   there. In safetensors `J.0` and so on, or all of them in `J` [layer, d_model, d_model] with int64
  ///   `source_layers`.
  /// Matrices keep the dtype they are stored in. Throws IoError, and CheckpointError naming a tensor that is
  /// neither, misshapen or missing.
  static LensMaps load(const std::filesystem::path& file_or_folder);
};

}  // namespace hooked
