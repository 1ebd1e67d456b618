#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "hooked/core/export.h"
#include "hooked/core/shared.h"
#include "hooked/dictionaries/dictionary_config.h"

namespace HOOKED_EXPORT hooked {

/// The parameters of a dictionary. Those that its architecture lacks are undefined. For designated
/// initialisers.
struct DictionaryWeights {
  at::Tensor W_enc = {};      ///< [d_in, features]; matching pursuit has none
  at::Tensor b_enc = {};      ///< [features]; neither a gated dictionary nor matching pursuit has it
  at::Tensor W_dec = {};      ///< [features, d_out], or [features, layers, d_out] if it crosses layers
  at::Tensor b_dec = {};      ///< [d_out]
  at::Tensor threshold = {};  ///< [features], of jump_relu
  at::Tensor W_skip = {};     ///< [d_out, d_in]
  at::Tensor b_gate = {};     ///< [features], of gated
  at::Tensor b_mag = {};      ///< [features], of gated
  at::Tensor r_mag = {};      ///< [features], of gated: the magnitude's encoder is W_enc · exp(r_mag)
};

/// How a dictionary is read. For designated initialisers.
struct DictionaryOptions {
  /// In which it computes; nothing: as its files say, else as they store W_dec.
  std::optional<at::ScalarType> dtype = {};
  at::Device device = at::kCPU;  ///< where its weights are
  /// Which of several dictionaries, for a folder with one for each layer.
  std::optional<std::int64_t> layer = {};
};

/// The codes of tokens that are not 0. Their number per token is that of the token that has most: the others
/// have codes of 0 at any of their features.
struct SparseCodes {
  at::Tensor indices;         ///< [..., n] int64: features
  at::Tensor values;          ///< [..., n]: their codes
  std::int64_t features = 0;  ///< of the dictionary

  /// The same as [..., features].
  at::Tensor dense() const;
};

/// A sparse autoencoder or a transcoder: activations to codes of features, and back.
///
/// A cheap handle; copies share the weights, which nothing changes. Inputs are converted to the dictionary's
/// dtype, and reconstructions back to the input's. Everything is recorded by autograd. Const and safe to use
/// from several threads.
class Dictionary {
 public:
  /// A dictionary of these weights, which are shared, not copied. Throws ConfigError for a config whose parts
  /// do not go together, and ShapeError for a weight that is missing, superfluous or has another shape, dtype
  /// or device than the others.
  Dictionary(DictionaryConfig config, DictionaryWeights weights);

  /// Reads a dictionary: a folder or file of one of the formats of docs/dictionaries.md, or
  /// `org/name[@revision][:path]` in the hub cache. Nothing is downloaded, and nothing in the files is run.
  /// Throws CheckpointError, ConfigError or IoError.
  static Dictionary load(std::string_view path, const DictionaryOptions& options = {});

  /// Writes the folder in SAELens's format, version 6. A folder is written to if it is new or empty, or if it
  /// has only a dictionary that hooked saved; never in a hub cache, nor where this dictionary was read from.
  /// Throws ConfigError for a dictionary that the format has no architecture for, and IoError.
  void save(const std::filesystem::path& folder) const;

  const DictionaryConfig& config() const&;    ///< what it computes, and where it belongs
  DictionaryConfig config() const&&;          ///< the same of a temporary, as a copy
  const DictionaryWeights& weights() const&;  ///< its parameters
  DictionaryWeights weights() const&&;        ///< the same of a temporary, as a copy

  /// The codes of activations x, [..., d_in] or [..., heads, d_head]: [..., features].
  at::Tensor encode(const at::Tensor& x) const;
  /// What codes are decoded to, in the shape and dtype of x, the activation that was encoded; of a transcoder
  /// [..., d_out] in the dtype of x. Throws ConfigError if the dictionary crosses layers.
  at::Tensor decode(const at::Tensor& codes, const at::Tensor& x) const;
  /// decode(encode(x), x).
  at::Tensor reconstruct(const at::Tensor& x) const;

  /// encode(x) without memory for [tokens, features]: tokens are encoded some at a time.
  SparseCodes encode_sparse(const at::Tensor& x) const;
  /// decode(codes.dense(), x) without memory for [tokens, features].
  at::Tensor decode_sparse(const SparseCodes& codes, const at::Tensor& x) const;

  // The steps of encode and decode, which a run shows as points. Each takes what the one before returned.

  /// x in the dictionary's dtype, with the heads of a token side by side: [..., d_in]. SAELens's
  /// hook_sae_input.
  at::Tensor input_of(const at::Tensor& x) const;
  /// Whether there is a tensor of pre-activations (hook_sae_acts_pre): not in matching pursuit.
  bool has_preactivations() const;
  /// [..., features]; of a gated dictionary those of the magnitude. Undefined if there are none.
  at::Tensor preactivations(const at::Tensor& input) const;
  /// The codes: hook_sae_acts_post. `input` is what a gate and matching pursuit read.
  at::Tensor activations(const at::Tensor& preactivations, const at::Tensor& input) const;
  /// Decoded codes: hook_sae_recons. With W_skip, the input's own part is in it, in contrast to SAELens.
  at::Tensor reconstruction(const at::Tensor& codes, const at::Tensor& input) const;
  /// The reconstruction as the activation x that was given: the input's norm undone, heads apart, in the
  /// dtype of x. Of a transcoder only the dtype changes.
  at::Tensor output_of(const at::Tensor& reconstruction, const at::Tensor& input, const at::Tensor& x) const;

  /// The norms of the decoder's rows, [features]; of a dictionary that crosses layers over all of them.
  at::Tensor decoder_norms() const;
  /// The same function with decoder rows of norm 1, as Neuronpedia shows it: a code is `n` times as large,
  /// where `n` is max(norm, 1e-8). Throws ConfigError where the norms decide which features are kept.
  Dictionary with_unit_decoder() const;

 private:
  struct Data;
  friend struct DictionaryPlan;
  explicit Dictionary(std::shared_ptr<const Data> data);

  Shared<const Data> data_;
};

}  // namespace hooked
