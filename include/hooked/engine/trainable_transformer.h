#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/shared.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// The same graph with leaf parameters, for training. Move-only: the one owner changes the weights.
///
/// An optimizer takes `parameters()`; take its steps outside any run. No hooks: freeze() to look inside. If
/// memory runs out MemoryError is thrown, but LibTorch's own error in the caller's backward().
class TrainableTransformer {
 public:
  /// Fresh weights. Throws ConfigError.
  static TrainableTransformer create(const ModelConfig& config, const CreateOptions& options = {});
  /// A copy of a model's weights.
  static TrainableTransformer from(const HookedTransformer& model);

  TrainableTransformer(TrainableTransformer&&) noexcept;
  TrainableTransformer& operator=(TrainableTransformer&&) noexcept;
  TrainableTransformer(const TrainableTransformer&) = delete;
  TrainableTransformer& operator=(const TrainableTransformer&) = delete;
  ~TrainableTransformer();

  /// The config of the weights.
  const ModelConfig& config() const&;
  /// The same for a temporary, as a copy.
  ModelConfig config() const&& { return config(); }

  /// The packed leaf parameters by their path in the graph (`blocks.0.attn.W_QKV`, ...).
  /// Matrices may be stored in column order: flatten with reshape, not view.
  std::vector<std::pair<std::string, at::Tensor>> named_parameters() const;
  /// The same without their paths.
  std::vector<at::Tensor> parameters() const;

  /// Logits [batch, pos, vocab] with gradients. Throws HookError for a model without an unembedding, and
  /// MemoryError.
  at::Tensor forward(const Input& input) const;
  /// Mean next-token cross entropy in nats, a scalar with gradients. Throws HookError for a bidirectional
  /// model, which sees the tokens it would predict, and MemoryError.
  at::Tensor loss(const Input& input) const;

  /// An immutable model with a copy of the current weights.
  HookedTransformer freeze() const;

 private:
  explicit TrainableTransformer(std::shared_ptr<LoadedModel> model);

  Shared<LoadedModel> model_;
};

}  // namespace hooked
