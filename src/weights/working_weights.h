#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"
#include "weights/named_tensor.h"

namespace hooked::weights {

/// The float64 side of a few weights of a state dict: one block's, or those before and after the blocks.
/// Steps read and replace tensors here by their names without the block's prefix (`attn.W_Q`, `embed.W_E`);
/// `commit` rounds what changed and puts it back, so a chain of steps rounds once. Nothing is written in
/// place.
///
/// Keys and values of grouped-query models are reached under their plain names (`attn.W_K`); the underscore
/// that their stored names carry is added here.
class WorkingWeights {
 public:
  /// Those of block `layer`, or without one those before and after the blocks. Keeps references: `weights`
  /// and `config` must live on.
  WorkingWeights(StateDict& weights, const ModelConfig& config, std::optional<std::int64_t> layer);

  /// Which block this is; -1 outside the blocks.
  std::int64_t layer() const noexcept { return layer_; }

  /// The weight in float64. Throws CheckpointError if it is missing or its shape is not what the config says.
  NamedTensor get(std::string_view name);

  /// Zeros in the shape of the weight of that name, float64: the value of a bias that the model does not
  /// have.
  at::Tensor zeros(std::string_view name) const;

  /// Whether there is a weight of that name.
  bool has(std::string_view name) const;

  void set(std::string_view name, at::Tensor values);
  void erase(std::string_view name);

  /// Puts what changed back into the state dict, rounded to the wider of its own dtype and the config's.
  void commit();

 private:
  std::string key(std::string_view name) const;
  at::ScalarType committed_dtype(const std::string& key) const;

  StateDict& weights_;
  const ModelConfig& config_;
  std::int64_t layer_;
  std::string scope_;
  at::Device device_ = at::kCPU;
  at::ScalarType dtype_;                       ///< of biases that come into being
  std::map<std::string, at::Tensor> changed_;  ///< by stored name; undefined where erased
};

}  // namespace hooked::weights
