#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/placement.h"

namespace hooked {

/// As what keys and values are held.
enum class KeyForm : std::uint8_t {
  heads,    ///< one key and one value for each key/value head
  latents,  ///< of latent attention: what all heads are made from, as one head that every query reads
};

/// The keys (after rotary and after hooks) and values of some columns of one layer, both
/// [batch or 1, kv_head, pos, d_head]; values may have a width of their own. As latents: keys
/// [batch or 1, 1, pos, kv_latent + d_shared_key], the latent and behind it the turned part that heads share,
/// and values [batch or 1, 1, pos, kv_latent], the latents among these keys.
struct KeysAndValues {
  at::Tensor keys;
  at::Tensor values;
  KeyForm form = KeyForm::heads;
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
/// columns, filled from the left. Each layer holds them in the form in which its first columns came. One
/// thread fills it; filled and const it may be read by many.
class KvCache {
 public:
  /// How much room, for how many rows.
  struct Size {
    std::int64_t batch;
    std::int64_t capacity;
  };

  /// The room of a layer is allocated when it appends its first columns.
  KvCache(std::int64_t layers, Size size);

  std::int64_t batch() const noexcept { return size_.batch; }
  /// Columns that are filled.
  std::int64_t length() const noexcept { return length_; }
  /// [batch, length] bool, true for tokens that are not padding; undefined: all are.
  const at::Tensor& real() const noexcept { return real_; }

  /// Writes what `layer` computed for the columns after those that are filled, of as many rows and in the
  /// form of these. They count as filled once `advance` is called.
  void append(std::int64_t layer, const KeysAndValues& own);
  /// Puts `filled`, all columns that are filled, in place of what the layer holds, in another form.
  void replace(std::int64_t layer, const KeysAndValues& filled);
  /// The first `columns` columns of a layer, as views.
  KeysAndValues layer(std::int64_t layer, std::int64_t columns) const;
  /// The first `columns` of the filled columns, sharing their memory; without room for more.
  KvCache first(std::int64_t columns) const;
  /// Counts as filled the columns that every layer has appended. `real` is their part of the mask, [batch,
  /// columns] bool, or undefined.
  void advance(std::int64_t columns, const at::Tensor& real);

  /// Bytes of the filled columns.
  std::int64_t bytes() const;

  /// Of encoder-decoders: what the decoder reads of the encoder.
  const EncoderKeys& encoder() const noexcept { return encoder_; }
  EncoderKeys& encoder() noexcept { return encoder_; }

 private:
  Size size_;
  std::int64_t length_ = 0;
  at::Tensor real_;
  std::vector<KeysAndValues> layers_;  // of all the capacity; undefined before anything is appended
  EncoderKeys encoder_;
};

}  // namespace hooked
