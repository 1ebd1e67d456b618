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

/// Some columns of a generation, which are run together.
struct Step {
  at::Tensor tokens;            ///< [batch, pos] int64
  at::Tensor real;              ///< [batch, pos] bool; undefined: all are
  at::Tensor last = {};         ///< [batch] int64: the columns whose logits are wanted, among the step's own;
                                ///< undefined: the last of all
  at::Tensor row_lengths = {};  ///< [batch] int64, where they are not what was run so far
  bool is_prompt = false;       ///< an encoder runs with it
};

/// What is done at the points in steps of one kind.
struct StepWatch {
  RunOptions options;                     ///< hooks, edits, captures and what is kept of these
  std::shared_ptr<const WatchPlan> plan;  ///< the same, resolved
};

/// The kinds of steps of a generation.
struct StepKinds {
  const StepWatch& prompt;
  const StepWatch& later;  ///< behind it
  bool uncentred = false;  ///< their logits are those of the checkpoint (Run::uncentred)
};

/// Runs a prompt and then column after column behind it, on remembered keys and values, and keeps what is
/// captured on the way.
///
/// Where the device replays recorded runs, keys and values lie in a room of the model's, and a column behind
/// the prompt is computed by work that is the same at every column (Note [A column that the device knows]):
/// recorded at the second column of a room and replayed from the third on, and of later generations from the
/// first. What cannot be recorded, and everything on other devices, attends to the columns that are there.
class ColumnRuns {
 public:
  /// Behind a checked `prompt`, which may come to `end` columns with those of its prefix. All but the prompt,
  /// which must outlive it, are copied.
  ColumnRuns(std::shared_ptr<const LoadedModel> model, const Input& prompt, std::int64_t end,
             const StepKinds& kinds, bool eager);

  /// Computes a step and keeps what it captures; logits [batch, vocab] at its last columns.
  at::Tensor run(const Step& step, const StepWatch& watch);
  /// What the watch of a step is made for, which would be the next one.
  RunExtent extent_of_step(const Step& step);
  /// Forgets the keys and values of all columns behind the prefix; what was captured stays.
  void restart();

  /// All that was captured.
  ActivationCache take_captured() { return captured_.take(); }
  /// Why steps were computed kernel by kernel although the device replays recorded runs, if they were.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  KvCache& cache() { return room_ ? room_->columns : *columns_; }
  /// As what each layer's keys are kept in a room.
  std::vector<KeyForm> forms_for(const StepKinds& kinds) const;
  /// An empty room for so many columns.
  KeyRooms::Lent room_for(std::int64_t columns) const;
  /// Of any columns, behind those that are there.
  at::Tensor run_columns(const Step& step, const StepWatch& watch);
  /// Of one column, in the room.
  at::Tensor run_at_column(const Step& step, const StepWatch& watch);
  /// What a step of `extent` kept, as that step's (it may be a replay of one at another column) and where it
  /// is asked for; what is to go to the host is taken there by those that it is appended to.
  ActivationCache kept_at(const ActivationCache& kept, const RunExtent& extent, const Kept& asked) const;

  const std::shared_ptr<const LoadedModel> model_;
  const Input& prompt_;
  const Reach reach_;
  const std::int64_t end_;
  const bool eager_;
  const bool uncentred_;
  std::int64_t past_ = 0;           // columns of a prefix that is read where it lies
  RoomKind kind_;                   // of rooms that serve
  KeyRooms::Lent room_;             // where a column's place is known to the device
  std::optional<KvCache> columns_;  // elsewhere
  GrowingCache captured_;
  std::vector<std::string> notes_;
};

}  // namespace hooked
