#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooks/watch.h"
#include "models/kv_cache.h"
#include "models/sequence.h"

namespace hooked {

class Workspace;

/// Everything that belongs to one run and passes through the graph with the activations: who watches, where
/// the tokens stand, which may attend to which. Used by one thread.
class Run : public Watch {
 public:
  /// What an encoder reads, for the decoder to attend to.
  struct Source {
    std::int64_t length;             ///< tokens per row
    at::Tensor attention_mask = {};  ///< [batch, pos] of these tokens, or undefined
    /// Holds each decoder layer's keys and values of the encoder's output from one run of a generation to the
    /// next; empty before the first, which runs the encoder. Null: this is the only run.
    std::vector<KeysAndValues>* memory = nullptr;
  };
  struct Input {
    Sequence::Input own;  ///< what the main stack reads
    /// [batch, pos] int64 or undefined: all 0.
    at::Tensor token_types = {};
    std::optional<Source> source = std::nullopt;
  };

  Run(const ModelConfig& config, Watch watch, const Input& input);

  const ModelConfig& config() const noexcept { return config_; }
  /// What blocks of that stack read.
  const Sequence& sequence(Stack stack) const { return stack == Stack::encoder ? *source_ : own_; }
  Sequence& sequence(Stack stack) { return stack == Stack::encoder ? *source_ : own_; }
  /// Columns of the main stack's sequence before this run's own.
  std::int64_t past() const noexcept { return own_.past(); }
  /// Types of the tokens, [batch, pos] or [1, pos] int64 on the device.
  at::Tensor token_types() const;

  /// What decoder blocks attend to the encoder's output by; made once.
  const LayerKind& source_kind();
  /// The keys and values that decoder layer `l` made of the encoder's output in an earlier run, or null.
  const KeysAndValues* recall(std::int64_t l) const;
  /// Keeps them for later runs, if there are to be any. Layers come in order.
  void keep(const KeysAndValues& made) const;

  /// Where activations come from; null while gradients are recorded.
  const Workspace* workspace = nullptr;
  /// Position embeddings [1 or batch, pos, d_model] for queries and keys (shortformer), else undefined.
  at::Tensor query_key_positions;
  /// Positions whose logits are computed, [position] int64 on the device; undefined: all.
  at::Tensor logit_positions;
  /// The encoder's output, [batch, pos of the source, d_model], once it ran.
  at::Tensor encoded;

 private:
  const ModelConfig& config_;
  std::int64_t length_;
  c10::Device device_;
  at::Tensor token_types_;
  Sequence own_;
  std::optional<Sequence> source_;  // of encoder-decoders
  std::vector<KeysAndValues>* memory_ = nullptr;
  bool remembers_source_ = false;
  std::optional<LayerKind> source_kind_;
};

}  // namespace hooked
