#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/weight_table.h"
#include "hooked/core/model_config.h"
#include "io/tensors/stored_tensor.h"
#include "weights/blocked_weight.h"

namespace hooked::weights {

/// The stored weights of a model by their state-dict names; nothing for missing ones.
using StoredWeights = std::function<std::optional<StoredTensor>(const std::string& name)>;

/// The change of a weight: its new values and the dtype they are rounded to.
struct ChangedWeight {
  BlockedWeight weight;
  at::ScalarType dtype;
};

/// By stored name; nothing if the weight is removed from the model.
using Changes = std::map<std::string, std::optional<ChangedWeight>>;

/// A few weights of a model in float64: one block's, or those before and after the blocks. Steps read and
/// replace tensors here by their names without the block's prefix (`attn.W_Q`, `embed.W_E`); `changes`
/// returns the results, so a chain of steps rounds once. Nothing is written in place. Keys and values of
/// grouped-query models have plain names here (`attn.W_K`), and weights outside the blocks can be reached by
/// their names from everywhere.
class WorkingWeights {
 public:
  /// The weights of a part of the model. Keeps references: `stored` and `config` must outlive this.
  WorkingWeights(const StoredWeights& stored, const ModelConfig& config, const WeightPart& part);

  /// Which part this is.
  const WeightPart& part() const noexcept { return part_; }

  /// The weight with its changes so far. This and the next three throw CheckpointError if it is missing or
  /// its shape contradicts the config.
  BlockedWeight now(std::string_view name);

  /// The same, to change it further.
  BlockedWeight& changing(std::string_view name);

  /// The whole weight in float64: for vectors, and for what cannot be done in blocks.
  at::Tensor get(std::string_view name) { return now(name).values(); }

  /// BlockedWeight::take_mean of it; [1] for a vector.
  at::Tensor take_mean(std::string_view name, Axis over);

  /// Sets the matrix `name` to the current transpose of `other`.
  void set_transposed(std::string_view name, std::string_view other);

  /// Zeros in the shape of the weight of that name, float64: the value of a bias that the model does not
  /// have.
  at::Tensor zeros(std::string_view name) const;

  /// Whether there is a weight of that name.
  bool has(std::string_view name) const;

  void set(std::string_view name, at::Tensor values);
  void erase(std::string_view name);

  /// What changed, to be rounded to the wider of the weight's own dtype and the config's.
  Changes changes() const;

 private:
  std::string key(std::string_view name) const;
  at::ScalarType committed_dtype(const std::string& key) const;

  const StoredWeights& stored_;
  const ModelConfig& config_;
  WeightPart part_;
  at::Device device_ = at::kCPU;
  at::ScalarType dtype_;                                         ///< of new biases
  std::map<std::string, std::optional<BlockedWeight>> changed_;  ///< by stored name; nothing where erased
};

}  // namespace hooked::weights
