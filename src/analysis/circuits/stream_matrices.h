#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/stream/frozen_norm.h"
#include "hooked/analysis/circuits.h"
#include "hooked/analysis/head_place.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooks/stream.h"

namespace hooked {

/// The matrices with which the parts of one stack read the stream and write to it, in the dtype of the
/// weights. They include the weights of the norms in between if CircuitOptions::norms says so: what is linear
/// in the stream when scales are held.
class StreamMatrices {
 public:
  /// `where` names the analysis in errors.
  StreamMatrices(const HookedTransformer& model, const CircuitOptions& options, std::string where);

  const ModelConfig& config() const { return config_; }
  std::int64_t layers() const;
  /// Whether that layer has heads.
  bool attends(std::int64_t layer) const;
  /// The layer counted from 0. Throws ShapeError.
  std::int64_t layer(std::int64_t layer) const;
  /// The head counted from 0. Throws ShapeError.
  HeadPlace head(const HeadPlace& place) const;

  /// The step of the stream by which attention or an MLP of a layer reads or writes; null if the layer has no
  /// such sublayer.
  const StreamStep* find(StreamStep::Kind kind, bool of_mlp, std::int64_t layer) const;

  /// Whether a reading matrix includes the norm before it.
  enum class Through : std::uint8_t { norm, nothing };

  // Of a layer's heads; keys and values are repeated for each head that shares them. Throw ConfigError for
  // latents and HookError if queries, keys and values are clipped.
  at::Tensor queries(std::int64_t layer, Through through = Through::norm) const;  ///< [head, d_model, d_head]
  at::Tensor keys(std::int64_t layer, Through through = Through::norm) const;     ///< [head, d_model, d_head]
  at::Tensor values(std::int64_t layer) const;                                    ///< [head, d_model, d_head]
  at::Tensor outputs(std::int64_t layer) const;                                   ///< [head, d_head, d_model]

  /// Of a layer's MLP, or of one of its experts. Throw ConfigError if the model lacks such a weight.
  at::Tensor mlp_in(std::int64_t layer, std::optional<std::int64_t> expert) const;    ///< [d_model, neuron]
  at::Tensor mlp_gate(std::int64_t layer, std::optional<std::int64_t> expert) const;  ///< [d_model, neuron]
  at::Tensor mlp_out(std::int64_t layer, std::optional<std::int64_t> expert) const;   ///< [neuron, d_model]

  /// Tokens as they are in the stream before any block, [vocab, d_model]. A norm of tokens alone (BLOOM's) is
  /// applied to each token; for one over sums with other embeddings (BERT's) the scale is left out.
  at::Tensor embedding() const;
  /// W_pos likewise, [pos, d_model]. Throws HookError for models without it.
  at::Tensor positions() const;
  /// What logits are read with, [d_model, vocab]. Throws HookError if anything but a norm and a matrix is in
  /// between, and for an encoder.
  at::Tensor unembedding() const;

  /// Throws HookError if norms on the stream itself, or numbers that multiply it, are between what is written
  /// and what is read.
  void require_plain_stream() const;
  /// Throws HookError if queries and keys pass through their own norms, in that layer or in any.
  void require_plain_scores(std::optional<std::int64_t> layer = std::nullopt) const;
  /// Throws HookError if anything but a matrix is between the values and the output of heads.
  void require_plain_values() const;

  /// [layer, ..] of one of the matrices of heads above: NaN in layers without attention. If layers have heads
  /// of different sizes, smaller heads are padded with zeros at the end, which does not change the product of
  /// a circuit's two sides.
  at::Tensor all(const std::function<at::Tensor(std::int64_t layer)>& of_layer) const;

 private:
  /// On the model's first device, if layers are on several.
  at::Tensor here(const at::Tensor& weight) const;
  const StreamStep& step(StreamStep::Kind kind, bool of_mlp, std::int64_t layer) const;
  /// A reading matrix with its norm folded in; routed experts may have a norm of their own.
  at::Tensor read(const StreamStep& step, const at::Tensor& matrix, bool of_experts = false) const;
  /// A writing matrix with the norm after it folded in.
  at::Tensor written(const StreamStep& step, const at::Tensor& matrix) const;
  at::Tensor for_each_head(const at::Tensor& matrix) const;
  at::Tensor summed_embedding(const at::Tensor& embedding) const;

  const HookedTransformer& model_;
  const ModelConfig& config_;
  CircuitOptions options_;
  std::string where_;
  WeightView weights_;
  std::vector<StreamStep> steps_;
};

}  // namespace hooked
