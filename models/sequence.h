#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hooked/core/model_config.h"
#include "models/kv_cache.h"
#include "models/rotary.h"

namespace hooked {

/// The rotary frequencies a model needs, made at load: those of full layers and of windowed ones.
struct LayerFrequencies {
  RotaryFrequencies full;
  RotaryFrequencies windowed;
};

/// The masks and angles that layers of one kind share.
struct LayerKind {
  at::Tensor
      blocked;  ///< [1 or batch, 1, query, key] bool, true where attention is forbidden; undefined: nowhere
  at::Tensor bias;      ///< what scores get by distance, [1 or batch, head, query, key]; undefined: nothing
  RotaryAngles angles;  ///< undefined without rotary
  bool plain_causal = false;  ///< the mask is the causal one and nothing else
};

/// The tokens that one stack of blocks reads: where they stand, and which may attend to which.
class Sequence {
 public:
  struct Input {
    std::int64_t batch;
    std::int64_t length;        ///< tokens per row, without those that are remembered
    at::Tensor attention_mask;  ///< [batch, pos] of these tokens, or undefined
    c10::Device device;
    /// Columns that stand before the others and are only read; of as many rows, or of one that all share.
    std::shared_ptr<const KvCache> prefix = nullptr;
    /// Columns between those of the prefix and the run's own, which the run's own are added to.
    KvCache* extends = nullptr;
    /// Tokens of each row that length-dependent rotary angles go by, [batch] int64; undefined: those so far.
    at::Tensor row_lengths = {};
  };

  /// Read by blocks of `stack`.
  Sequence(const ModelConfig& config, Stack stack, Input input);

  std::int64_t batch() const noexcept { return input_.batch; }
  const at::Tensor& positions() const noexcept { return positions_; }          ///< [1 or batch, pos] int64
  const at::Tensor& key_positions() const noexcept { return key_positions_; }  ///< [1 or batch, key] int64
  /// [batch, pos] bool; undefined: all are, and so are those that are remembered.
  const at::Tensor& real() const noexcept { return real_; }
  /// Columns before the run's own.
  std::int64_t past() const noexcept { return past_; }
  /// Each row's last real column, [batch] int64; undefined where nothing is padding.
  at::Tensor last_columns() const;
  /// What layer `l` attends by; made once per kind of layer.
  const LayerKind& layer_kind(std::int64_t l, const LayerFrequencies& frequencies);
  /// What the blocks of another stack, of queries `length` long, attend to this sequence by: padding only.
  LayerKind seen_from(std::int64_t length) const;

  /// What layer `l` attends to, in stretches of columns from left to right: what is remembered, and this
  /// run's own `keys` and `values` [batch, pos, kv_head, d_head].
  std::vector<KeysAndValues> remember(std::int64_t l, const at::Tensor& keys, const at::Tensor& values) const;

  /// What every block of the stack adds to its scores, [1 or batch, head, query, key]: made by the first
  /// (relative positions), else undefined.
  at::Tensor relative_bias;

 private:
  /// -slope * (query position - key position), [1 or batch, head, query, key].
  at::Tensor alibi_bias() const;
  /// Which keys are padding, [batch, 1, query, key]; undefined where none is.
  at::Tensor blocked_padding(std::int64_t queries) const;
  LayerKind make_layer_kind(bool windowed, const LayerFrequencies& frequencies) const;

  const ModelConfig& config_;
  bool bidirectional_;
  Input input_;
  std::int64_t past_;
  at::Tensor positions_;
  at::Tensor real_;
  at::Tensor key_positions_;  // [1 or batch, key] int64
  at::Tensor real_keys_;      // [batch, key] bool; undefined: all are
  std::array<std::optional<LayerKind>, 2> kinds_;
};

}  // namespace hooked
