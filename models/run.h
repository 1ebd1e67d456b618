#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooks/watch.h"
#include "models/kv_cache.h"
#include "models/rotary.h"

namespace hooked {

class Workspace;

/// The rotary frequencies a model needs, made at load: those of full layers and of windowed ones.
struct LayerFrequencies {
  RotaryFrequencies full;
  RotaryFrequencies windowed;
};

/// Everything that belongs to one run and passes through the graph with the activations: who watches, where
/// the tokens stand, which may attend to which. Used by one thread.
class Run : public Watch {
 public:
  struct Input {
    std::int64_t batch;
    std::int64_t length;        ///< tokens per row, without those that are remembered
    at::Tensor attention_mask;  ///< [batch, pos] of these tokens, or undefined
    c10::Device device;
    at::Tensor token_types = {};  ///< [batch, pos] int64 or undefined: all 0
    /// Columns that stand before the others and are only read; of as many rows, or of one that all share.
    std::shared_ptr<const KvCache> prefix = nullptr;
    /// Columns between those of the prefix and the run's own, which the run's own are added to.
    KvCache* extends = nullptr;
    /// Tokens of each row that length-dependent rotary angles go by, [batch] int64; undefined: those so far.
    at::Tensor row_lengths = {};
  };

  /// The masks and angles that layers of one kind share.
  struct LayerKind {
    at::Tensor
        blocked;  ///< [1 or batch, 1, query, key] bool, true where attention is forbidden; undefined: nowhere
    at::Tensor bias;            ///< ALiBi [1 or batch, head, query, key], undefined without
    RotaryAngles angles;        ///< undefined without rotary
    bool plain_causal = false;  ///< the mask is the causal one and nothing else
  };

  Run(const ModelConfig& config, Watch watch, const Input& input);

  const ModelConfig& config() const noexcept { return config_; }
  const at::Tensor& positions() const noexcept { return positions_; }  ///< [1 or batch, pos] int64
  /// [batch, pos] bool; undefined: all are, and so are those that are remembered.
  const at::Tensor& real() const noexcept { return real_; }
  /// Columns of the sequence before this run's own.
  std::int64_t past() const noexcept { return past_; }
  /// Types of the tokens, [batch, pos] or [1, pos] int64 on the device.
  at::Tensor token_types() const;
  /// What layer `l` attends by; made once per kind of layer.
  const LayerKind& layer_kind(std::int64_t l, const LayerFrequencies& frequencies);

  /// What layer `l` attends to, in stretches of columns from left to right: what is remembered, and this
  /// run's own `keys` and `values` [batch, pos, kv_head, d_head].
  std::vector<KeysAndValues> remember(std::int64_t l, const at::Tensor& keys, const at::Tensor& values) const;

  /// Where activations come from; null while gradients are recorded.
  const Workspace* workspace = nullptr;
  /// Position embeddings [1 or batch, pos, d_model] for queries and keys (shortformer), else undefined.
  at::Tensor query_key_positions;
  /// Positions whose logits are computed, [position] int64 on the device; undefined: all.
  at::Tensor logit_positions;

 private:
  /// -slope * (query position - key position), [1 or batch, head, query, key].
  at::Tensor alibi_bias() const;
  LayerKind make_layer_kind(bool windowed, const LayerFrequencies& frequencies) const;

  const ModelConfig& config_;
  Input input_;
  std::int64_t past_;
  at::Tensor positions_;
  at::Tensor real_;
  at::Tensor key_positions_;  // [1 or batch, key] int64
  at::Tensor real_keys_;      // [batch, key] bool; undefined: all are
  std::array<std::optional<LayerKind>, 2> kinds_;
};

}  // namespace hooked
