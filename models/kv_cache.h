#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/placement.h"

namespace hooked {

/// The keys (after rotary and after hooks) and values of some columns of one layer, both
/// [batch or 1, kv_head, pos, d_head]; values may have a width of their own.
struct KeysAndValues {
  at::Tensor keys;
  at::Tensor values;
};

/// What the decoder's cross-attention made of an encoder's output: computed by the run that runs the encoder,
/// read by those that continue it.
struct EncoderKeys {
  std::vector<KeysAndValues> layers;  ///< one for each decoder layer; empty before the encoder ran
  at::Tensor real;                    ///< [batch, pos] bool of the encoder's tokens; undefined: all are real

  bool empty() const noexcept { return layers.empty(); }
  /// Tokens per row that the encoder read.
  std::int64_t length() const { return layers.front().keys.size(2); }
};

/// The key/value cache: keys and values of the columns that were run, in every layer. Has room for `capacity`
/// columns, filled from the left. One thread fills it; filled and const it may be read by many.
class KvCache {
 public:
  /// How much room, for how many rows.
  struct Size {
    std::int64_t batch;
    std::int64_t capacity;
  };

  /// Allocates the room where each layer lies, in the config's dtype.
  KvCache(const ModelConfig& config, Size size, const Placement& placement);

  std::int64_t batch() const noexcept { return size_.batch; }
  /// Columns that are filled.
  std::int64_t length() const noexcept { return length_; }
  /// [batch, length] bool, true for tokens that are not padding; undefined: all are.
  const at::Tensor& real() const noexcept { return real_; }

  /// Writes what `layer` computed for the columns after those that are filled, [batch, pos, kv_head, d_head]
  /// each. They count as filled once `advance` is called.
  void append(std::int64_t layer, const at::Tensor& keys, const at::Tensor& values);
  /// The first `columns` columns of a layer, as views.
  KeysAndValues layer(std::int64_t layer, std::int64_t columns) const;
  /// The first `columns` of the filled columns, sharing their memory; without room for more.
  KvCache first(std::int64_t columns) const;
  /// Counts as filled the columns that every layer has appended. `real` is their part of the mask, [batch,
  /// columns] bool, or undefined.
  void advance(std::int64_t columns, const at::Tensor& real);

  /// Of encoder-decoders: what the decoder reads of the encoder.
  const EncoderKeys& encoder() const noexcept { return encoder_; }
  EncoderKeys& encoder() noexcept { return encoder_; }

 private:
  Size size_;
  std::int64_t length_ = 0;
  at::Tensor real_;
  std::vector<KeysAndValues> layers_;  // [batch, kv_head, capacity, d_head]
  EncoderKeys encoder_;
};

}  // namespace hooked
