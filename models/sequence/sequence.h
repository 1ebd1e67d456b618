#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooks/ragged_rows.h"
#include "models/sequence/attention_mask.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/rotary.h"

namespace hooked {

/// Which keys the queries of some rows attend to in layers of one kind.
struct LayerKind {
  AttentionMask mask;
  bool plain_causal = false;    ///< the mask is only the causal one
  bool windowed = false;        ///< some queries see a stretch of keys that does not begin with the first
  bool has_empty_rows = false;  ///< rows of padding may see nothing at all

  /// The same for some of the queries, [query] int64.
  LayerKind of_queries(const at::Tensor& queries) const;
};

/// Where the few tokens are that a convolution reads.
struct EarlierTokens {
  /// [1 or batch, pos, tap] int64, among all columns up to the run's own: for each of its tokens the
  /// preceding ones, the oldest first, and itself. Undefined: tokens are adjacent columns.
  at::Tensor columns = {};
  at::Tensor missing = {};  ///< [1 or batch, pos, tap] bool: a row has no token so early
};

/// Which of a run's columns are tokens, for layers that continue from a state. All undefined if all are.
struct RunTokens {
  at::Tensor real = {};        ///< [batch, pos] bool of the run's own columns
  EarlierTokens earlier = {};  ///< among the taps - 1 tokens before the run's own columns, and these
  at::Tensor last = {};        ///< [batch, taps - 1] int64, among the same: the last tokens of each row
};

/// The tokens that one stack of blocks reads: their positions, and which may attend to which.
class Sequence {
 public:
  struct Input {
    std::int64_t batch;
    std::int64_t length;        ///< tokens per row, without those of earlier runs
    at::Tensor attention_mask;  ///< [batch, pos] of these tokens, or undefined
    c10::Device device;
    /// Earlier columns that are only read; with the same number of rows, or one row that all share.
    std::shared_ptr<const KvCache> prefix = nullptr;
    /// Rows with different first columns, after the one row of the prefix that each sees up to its own. Batch
    /// and length are those that the rows would fill. Null: every row begins after the whole prefix.
    std::shared_ptr<const RaggedRows> ragged = nullptr;
    /// Holds the columns between those of the prefix and the run's own, which are appended to it.
    KvCache* cache = nullptr;
    /// The column of the single token of each row, [1] int64 on the device, if the work has to be the same
    /// for every column (Note [A column that the device knows]); `cache` has marked it. Queries then attend
    /// to the whole room, but see nothing after that column. Undefined: the columns follow the cache's.
    /// Cannot be combined with a prefix.
    at::Tensor column = {};
    /// Token count of each row for length-dependent rotary angles, [batch] int64; undefined: those so far.
    at::Tensor row_lengths = {};
  };

  /// Read by blocks of `stack`.
  Sequence(const ModelConfig& config, Stack stack, Input input);

  std::int64_t batch() const noexcept { return input_.batch; }
  /// Rows with different first columns; null if all have the same.
  const RaggedRows* ragged() const noexcept { return input_.ragged.get(); }
  /// The sequences whose queries attend to the same columns: this one, or one for each group of ragged rows.
  std::span<const Sequence> parts() const noexcept { return parts_.empty() ? std::span(this, 1) : parts_; }
  /// One part's rows [row, pos, ...] of `x` [batch, pos, ...]; undefined if that is.
  at::Tensor part_of(const at::Tensor& x, std::size_t part) const;
  /// The results of a function of the part's number, [row, pos, ...], joined like `x` above.
  at::Tensor of_parts(const std::function<at::Tensor(std::size_t part)>& of_part) const;

  const at::Tensor& positions() const noexcept { return positions_; }          ///< [1 or batch, pos] int64
  const at::Tensor& key_positions() const noexcept { return key_positions_; }  ///< [1 or batch, key] int64
  /// [batch, pos] bool; undefined: all tokens are real, including those of earlier runs.
  const at::Tensor& real() const noexcept { return real_; }
  /// Columns before the run's own; if the device knows the column, as many as there may ever be.
  std::int64_t past() const noexcept { return past_; }
  /// Whether the device knows the column, so that queries attend to a whole room.
  bool in_room() const noexcept { return input_.column.defined(); }

  /// The mask of windowed layers, or of the others; not for ragged rows. If defined, `relative_bias` is added
  /// to all scores.
  LayerKind layer_kind(bool windowed, const ScoreBias& relative_bias = {}) const;
  /// What convolutions over `taps` tokens read; not for ragged rows.
  EarlierTokens earlier(std::int64_t taps) const;
  /// The same for convolutions that know the last tokens of earlier runs; not for ragged rows.
  RunTokens run_tokens(std::int64_t taps) const;
  /// The angles by which tokens are rotated at those frequencies.
  RotaryAngles angles(const RotaryFrequencies& frequencies) const;

  /// Factors of the queries [1 or batch, pos, 1, 1], if some layers of the model have them.
  at::Tensor query_growth() const;

  /// What heads add at distances (key position - query position): int64 [row, number] to [row, head, number].
  using BiasOfDistances = std::function<at::Tensor(const at::Tensor& distances)>;
  /// For this sequence's queries and keys; `whole`: always as a tensor by query and key.
  ScoreBias bias_by_distance(const BiasOfDistances& of, bool whole = false) const;

  /// What earlier runs left of layer `l`: segments of columns, from left to right.
  std::vector<KeysAndValues> past(std::int64_t l) const;
  /// Appends this run's own keys and values to layer `l` and returns everything that the layer attends to, in
  /// segments like those of `past`.
  std::vector<KeysAndValues> append(std::int64_t l, const KeysAndValues& own) const;

  /// What earlier runs left of layer `l`, which has a state; undefined tensors if there were none.
  RecurrentState state(std::int64_t l) const;
  /// Keeps what layer `l` knows after this run's columns, if there is a cache.
  void keep_state(std::int64_t l, const RecurrentState& next) const;
  /// What earlier runs computed from an encoder's output; null if this run does it, or without an encoder.
  const EncoderKeys* encoder_keys() const noexcept;
  /// Where this run's keys and values are kept for later ones; null: nowhere.
  KvCache* cache() const noexcept { return input_.cache; }

 private:
  /// The columns of the queries, [1, query] int64.
  at::Tensor own_columns() const;
  /// What causal stacks and windows let each query see.
  VisibleKeys visible_by_place(bool windows) const;
  /// -slope * (query position - key position).
  ScoreBias alibi_bias() const;
  /// Each query's column if the first column held the first token, [1 or batch, query] int64; undefined if
  /// there may be padding between tokens, so that columns do not give distances.
  at::Tensor columns_by_distance() const;

  const ModelConfig& config_;
  bool bidirectional_;
  Input input_;
  std::int64_t past_;
  at::Tensor positions_;
  at::Tensor real_;
  at::Tensor key_positions_;     // [1 or batch, key] int64
  at::Tensor real_keys_;         // [batch, key] bool; undefined: all are
  std::vector<Sequence> parts_;  // of ragged rows
};

/// The mask of cross-attention, for `queries` tokens per row: it hides padding among the encoder's tokens.
/// `real` [batch, key] bool says which are real (undefined: all).
LayerKind cross_attention_kind(const at::Tensor& real, std::int64_t queries);

}  // namespace hooked
