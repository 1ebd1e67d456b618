#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/placement.h"

namespace hooked {

/// The form in which keys and values are held.
enum class KeyForm : std::uint8_t {
  heads,      ///< one key and one value for each key/value head
  latents,    ///< latent attention: what all heads are made from, as one head that every query reads
  state,      ///< recurrent layers: no columns, but a state (RecurrentState)
  convolved,  ///< short convolutions: what they read of each token, as one head
  shared,     ///< layers that attend with the keys of another: nothing
};

/// What a layer with a state knows about all columns so far.
struct RecurrentState {
  at::Tensor inputs;  ///< [batch or 1, taps - 1, d_lin_qkv]: the last inputs of its convolution
  at::Tensor state;   ///< [batch or 1, head, d_key, d_value] in float32 or better; undefined before any token

  bool defined() const { return state.defined(); }
};

/// The keys (after rotary and after hooks) and values of some columns of one layer, both [batch or 1,
/// kv_head, pos, d_head]; values may have a width of their own. As latents: keys [batch or 1, 1, pos,
/// kv_latent + d_shared_key], the latent followed by the rotated part that heads share, and values [batch or
/// 1, 1, pos, kv_latent], the latents in these keys. For short convolutions: keys [batch or 1, 1, pos,
/// d_model], and values the same tensor.
struct KeysAndValues {
  at::Tensor keys;
  at::Tensor values;
  KeyForm form = KeyForm::heads;
};

/// What the decoder's cross-attention computed from an encoder's output: computed by the run that runs the
/// encoder, read by those that continue it.
struct EncoderKeys {
  std::vector<KeysAndValues> layers;  ///< one for each decoder layer; empty before the encoder ran
  at::Tensor real;                    ///< [batch, pos] bool of the encoder's tokens; undefined: all are real

  bool empty() const noexcept { return layers.empty(); }
  /// Tokens per row that the encoder read.
  std::int64_t length() const { return layers.front().keys.size(2); }
};

/// The KV cache: keys and values of the columns that were run, in every layer. Has room for `capacity`
/// columns, filled from the left. Each layer holds them in the form in which its first columns came. One
/// thread fills it; once filled and const, many may read it.
class KvCache {
 public:
  /// How many columns there is room for, in how many rows.
  struct Size {
    std::int64_t batch;
    std::int64_t capacity;

    bool operator==(const Size&) const = default;
  };

  /// The room of a layer is allocated when it appends its first columns.
  KvCache(std::int64_t layers, Size size);

  std::int64_t batch() const noexcept { return size_.batch; }
  /// Columns that there is room for.
  std::int64_t capacity() const noexcept { return size_.capacity; }
  /// Columns that are filled.
  std::int64_t length() const noexcept { return length_; }
  /// [batch, length] bool, true for tokens that are not padding; undefined: all are.
  at::Tensor real() const { return padded_ ? real_.narrow(1, 0, length_) : at::Tensor(); }

  /// Writes what `layer` computed for the next columns after the filled ones, with the same number of rows
  /// and in the same form. They count as filled once `advance` is called.
  void append(std::int64_t layer, const KeysAndValues& own);
  /// Replaces what the layer holds by `filled`, all its filled columns in another form.
  void replace(std::int64_t layer, const KeysAndValues& filled);
  /// The first `columns` columns of a layer, as views.
  KeysAndValues layer(std::int64_t layer, std::int64_t columns) const;
  /// The form in which a layer holds its columns; nothing before there is room for any.
  std::optional<KeyForm> form(std::int64_t layer) const;
  /// The first `columns` of the filled columns, sharing their memory; without room for more.
  KvCache first(std::int64_t columns) const;
  /// What a layer with a state knows about the filled columns; undefined tensors before there are any.
  const RecurrentState& state(std::int64_t layer) const { return states_[static_cast<std::size_t>(layer)]; }
  /// What it will know once the columns of the current run count as filled.
  void set_state(std::int64_t layer, const RecurrentState& next);
  /// Whether some layer has a state, so that columns cannot be removed.
  bool has_states() const;
  /// Counts as filled the columns that every layer has appended. `real` is their part of the mask, [batch,
  /// columns] bool, or undefined.
  void advance(std::int64_t columns, const at::Tensor& real);
  /// The same for columns that were marked before.
  void advance(std::int64_t columns);
  /// Copies the columns of another cache after the filled ones, to every row if that has one row, and what it
  /// knows of an encoder.
  void take_over(const KvCache& before);

  /// Bytes of the filled columns.
  std::int64_t bytes() const;

  // Note [A column that the device knows]
  // A recorded step of a generation is the same work at every column: it writes its keys to the column that a
  // number on the device gives, and reads the whole room, masking what is not filled. So nothing in the work
  // depends on how far the generation has come, except the numbers that it reads.

  /// Allocates the room of every layer on `device`, for keys and values of these forms in the config's dtype.
  void allot(const ModelConfig& config, const std::vector<KeyForm>& forms, const c10::Device& device);
  /// Empties it: all of the room is 0 (what is masked must be finite), and no column counts as filled.
  void clear();
  /// Says which of the `columns` after the filled ones are real, before they are run: `real` [batch, columns]
  /// bool, undefined for all.
  void mark(std::int64_t columns, const at::Tensor& real);
  /// For all columns that there is room for, [batch, capacity] bool; arbitrary after the marked ones.
  /// Undefined: no column is padding.
  at::Tensor real_room() const { return padded_ ? real_ : at::Tensor(); }
  /// Like `append`, for one column, at the index in `column` [1] int64. In the form of the room.
  void append_at(std::int64_t layer, const at::Tensor& column, const KeysAndValues& own);
  /// Copies what it knows of an encoder, for each row, into memory of the room, the same at every call. Only
  /// for encoders that read the same number of tokens as the first.
  void settle_encoder();
  /// Bytes of the whole room.
  std::int64_t room_bytes() const;

  /// All tensors that it holds, in an order that depends only on the shapes.
  std::vector<at::Tensor> tensors() const;
  /// The same columns in other memory: `tensors` are like its own, in the same order.
  KvCache with_tensors(const std::vector<at::Tensor>& tensors) const;

  /// For encoder-decoders: what the decoder reads of the encoder.
  const EncoderKeys& encoder() const noexcept { return encoder_; }
  EncoderKeys& encoder() noexcept { return encoder_; }

 private:
  template <typename Cache, typename Use>
  static void for_each_tensor(Cache& cache, const Use& use);

  Size size_;
  std::int64_t length_ = 0;
  bool padded_ = false;
  at::Tensor real_;                    // [batch, capacity] bool; undefined before there was any padding
  std::vector<KeysAndValues> layers_;  // of the whole capacity; undefined before anything is appended
  std::vector<RecurrentState> states_, next_states_;  // of the filled columns, and including those being run
  bool allotted_ = false;                             // tensors stay in place
  EncoderKeys encoder_;
  EncoderKeys encoder_room_;  // what settle_encoder() fills
};

}  // namespace hooked
