#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooked/engine/input.h"
#include "hooked/engine/run_options.h"
#include "hooks/growing_cache.h"
#include "hooks/watch.h"
#include "loading/fill/loaded_model.h"
#include "models/replay/key_rooms.h"
#include "models/sequence/kv_cache.h"

namespace hooked {

/// Some columns of a generation, which run together.
struct Step {
  at::Tensor tokens;            ///< [batch, pos] int64
  at::Tensor real;              ///< [batch, pos] bool; undefined: all are
  at::Tensor last = {};         ///< [batch] int64: the columns whose logits are wanted, among the step's own;
                                ///< undefined: the last of all
  at::Tensor row_lengths = {};  ///< [batch] int64, if they are not what was run so far
  bool is_prompt = false;       ///< the encoder runs with it
};

/// What is done at the points in steps of one kind.
struct StepWatch {
  RunOptions options;                     ///< hooks, edits, captures and how much of these is kept
  std::shared_ptr<const WatchPlan> plan;  ///< the same, resolved
};

/// The kinds of steps of a generation.
struct StepKinds {
  const StepWatch& prompt;
  const StepWatch& later;  ///< after it
  bool uncentred = false;  ///< their logits are those of the checkpoint (Run::uncentred)
};

/// Runs a prompt, and then one column after another, with a KV cache, and keeps what is captured on the
/// way.
///
/// If the device replays recorded runs, the KV cache is in a room of the model's, and the work for a column
/// after the prompt is the same for every column (Note [A column that the device knows]). It is recorded at
/// the second column in a room and replayed from the third on; later generations replay it from their first
/// column. What cannot be recorded, and everything on other devices, attends to the existing columns.
class ColumnRuns {
 public:
  /// Starts after a checked `prompt`; there may be up to `end` columns, including those of its prefix.
  /// Everything but the prompt, which must outlive this, is copied.
  ColumnRuns(std::shared_ptr<const LoadedModel> model, const Input& prompt, std::int64_t end,
             const StepKinds& kinds, bool eager);

  /// Computes a step and keeps what it captures; returns the logits [batch, vocab] at its last columns.
  at::Tensor run(const Step& step, const StepWatch& watch);
  /// The extent to make a step's watch for, if it is the next step.
  RunExtent extent_of_step(const Step& step);
  /// Forgets the keys and values of all columns after the prefix; what was captured is kept.
  void restart();

  /// Everything that was captured.
  ActivationCache take_captured() { return captured_.take(); }
  /// Why steps launched each kernel separately although the device replays recorded runs, if they did.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  KvCache& cache() { return room_ ? room_->columns : *columns_; }
  /// The form in which each layer's keys are kept in a room.
  std::vector<KeyForm> forms_for(const StepKinds& kinds) const;
  /// An empty room for `columns` columns.
  KeyRooms::Lent room_for(std::int64_t columns) const;
  /// Runs any number of columns, after the existing ones.
  at::Tensor run_columns(const Step& step, const StepWatch& watch);
  /// Runs one column, in the room.
  at::Tensor run_at_column(const Step& step, const StepWatch& watch);
  /// What a step of `extent` kept, labelled as that step's (it may be a replay of one at another column) and
  /// on the requested device. What goes to the host is taken there by the cache that it is appended to.
  ActivationCache kept_at(const ActivationCache& kept, const RunExtent& extent, const Kept& asked) const;

  const std::shared_ptr<const LoadedModel> model_;
  const Input& prompt_;
  const Reach reach_;
  const std::int64_t end_;
  const bool eager_;
  const bool uncentred_;
  std::int64_t past_ = 0;           // columns of a prefix that is read in place
  RoomKind kind_;                   // the kind of room that fits
  KeyRooms::Lent room_;             // if the device knows a column's place
  std::optional<KvCache> columns_;  // otherwise
  GrowingCache captured_;
  std::vector<std::string> notes_;
};

}  // namespace hooked
