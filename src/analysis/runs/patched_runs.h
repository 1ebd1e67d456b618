#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/point_index.h"

namespace hooked {

/// A block of an activation, and its new value.
struct PatchedBlock {
  Address place;     ///< a full name; indices are numbers from 0 on, or lists of them
  at::Tensor value;  ///< broadcast to the block, whose batch axis has size 1
};

/// The blocks that are replaced together in one patched run.
using Patch = std::vector<PatchedBlock>;

/// For each patch 1 if it equals the value in `unpatched`, else 0. On other devices than the CPU the host
/// synchronises once, not per patch.
std::vector<char> without_effect(const std::vector<Patch>& patches, const ActivationCache& unpatched);

/// Runs one input under many patches, computing little more than what a patch can change.
///
/// One run without patches keeps the stream before every layer, the keys and values of all columns, and the
/// values that are patched. Patches of one activation are then rows of runs that begin at its layer, each at
/// the first column that can differ, with the patched value set whole, so that what leads to it is not
/// computed. The effect of queries, keys, scores and patterns is computed in their own layer first: they are
/// patched in a run that ends at z. A patch that changes nothing needs no run.
///
/// With standing hooks or edits, or if activations are read, rows have all columns; the same holds for models
/// that attend both ways or whose keys are rotated depending on the length, and on devices other than the
/// CPU. Patches of an encoder are whole runs.
class PatchedRuns {
 public:
  /// What every run also does. For designated initialisers.
  struct Options {
    /// Standing hooks (in addition to those of the handle) and edits, what is captured, and the positions of
    /// logits.
    RunOptions run;
    std::int64_t tokens_per_run = 1024;  ///< computed together
  };

  /// Runs `input`, which has one row, once for all patches of these activations.
  PatchedRuns(const HookedTransformer& model, Input input, const std::vector<ActivationName>& patched,
              Options options);

  /// The same with an existing run without patches that had these standing hooks and edits: for value() and
  /// resume(), as far as it kept what they read.
  PatchedRuns(const HookedTransformer& model, Input input, Options options, RunResult unpatched);

  /// The run without patches.
  const RunResult& unpatched() const noexcept { return unpatched_; }
  /// What it kept of an activation, [1, ...].
  at::Tensor value(const ActivationName& name) const { return unpatched_.cache[Address(name)]; }

  /// What resume() before a block of the main stack reads of the run without patches.
  static std::vector<ActivationName> read_to_resume(const ModelConfig& config, std::int64_t layer);
  /// Runs from the stream before a block of the main stack, [row, pos, d_model], with these edits in addition
  /// to the standing ones.
  ActivationCache resume(std::int64_t layer, const at::Tensor& streams, Edits edits, Selection capture) const;
  /// Whole runs of `rows` rows with these edits in addition to the standing ones.
  ActivationCache whole(std::int64_t rows, Edits edits, Selection capture) const;

  /// A patched run as a row of a larger one.
  struct Row {
    std::size_t patch;          ///< its number
    std::int64_t first_column;  ///< that can differ
  };
  /// Patches whose runs can be rows of one run: those of one activation, or of several from one layer on.
  struct Group {
    std::optional<std::int64_t> layer;  ///< the run starts before this block; nothing: from its tokens
    std::optional<std::size_t> point;   ///< the point that is patched; nothing: several
    bool alone = false;                 ///< each run separately: an expert's tokens come from all rows

    auto operator<=>(const Group&) const = default;
  };
  /// Where a run begins that continues from a given stream.
  struct Begin {
    std::int64_t stream;  ///< the block before which that stream is
    /// The first block that runs: the same, or an earlier one whose keys later layers attend with.
    std::int64_t run;
  };
  /// Patches that are run together.
  struct Batch {
    Group group;
    std::vector<Row> rows;
    bool changes = true;  ///< false: they change nothing, and there is nothing to run

    /// Its rows from the `begin`-th to before the `end`-th.
    Batch part(std::int64_t begin, std::int64_t end) const {
      return {group, {rows.begin() + begin, rows.begin() + end}, changes};
    }
  };
  /// All patches, each in one batch: always the same ones together.
  std::vector<Batch> batches(const std::vector<Patch>& patches) const;
  /// The approximate memory that the runs of a batch take while they are computed.
  std::int64_t bytes(const Batch& batch) const;
  /// The runs of a batch of these patches, as its rows. May be called by several threads.
  RunResult run(const std::vector<Patch>& patches, const Batch& batch) const;

 private:
  std::int64_t first_column(const PatchedBlock& block) const;
  /// Whether an activation changes nothing but z of its own layer: queries, keys, values, scores, pattern.
  bool is_mixed(const ActivationName& name) const;
  /// Whether the rows of a group may begin at columns of their own.
  bool has_suffixes(const Group& group) const;
  bool reaches_into_padding(const PatchedBlock& block) const;
  Group group_of(const Patch& patch) const;
  std::int64_t rows_at_once(const Group& group) const;
  RunResult run_suffixes(const ActivationName& name, const at::Tensor& values,
                         const std::vector<Row>& rows) const;
  RunResult run_columns(const Group& group, const std::vector<Patch>& patches,
                        const std::vector<Row>& rows) const;
  /// z of a layer whose queries, keys, values, scores or pattern are patched, [row, pos, head, d_value].
  at::Tensor mixed(const ActivationName& name, const at::Tensor& values) const;
  /// `unpatched` [1, pos, ...] from a column on, repeated for each row, with the rows' patches.
  at::Tensor patched(const ActivationName& name, const std::vector<Patch>& patches,
                     const std::vector<Row>& rows, std::int64_t from_column) const;
  /// The input as rows that start before a layer, or from its tokens. Keys and values of an encoder's output
  /// are recomputed only if they are edited.
  Input rows_from(std::optional<std::int64_t> layer, std::int64_t rows, bool edits_source = false) const;
  /// What a run of these rows computes there with these edits in addition to those of the options.
  ActivationCache seen(const Input& rows, RunOptions options, Edits edits, Selection capture) const;
  /// The options of a run that starts there: standing hooks and edits of what it computes.
  RunOptions options_from(const Begin& begin) const;
  /// The last block up to `layer` at which a run may begin: later layers attend with keys, and dictionaries
  /// read activations, that it computes.
  std::int64_t first_block_for(std::int64_t layer) const;
  /// The stream before a block in the run without patches, [1, pos, d_model].
  at::Tensor stream_before(std::int64_t layer) const;
  /// A start before a block; `streams` hold the columns from `first` on.
  StartAtLayer start_at(std::int64_t layer, const at::Tensor& streams, std::int64_t first) const;

  HookedTransformer model_;  // without hooks: those of the handle are in the options
  Input input_;
  Options options_;
  PointIndex points_;
  bool changes_shared_ = false;  // hooks or edits change what all layers read in addition to the stream
  bool needs_tokens_ = false;    // dictionaries leave out some of them, or read embeddings
  bool keeps_encoder_ = false;   // the encoder's output is the same in all runs
  bool suffixes_ = false;        // rows may begin at columns of their own
  std::int64_t columns_;         // of the stack that predicts
  std::int64_t first_real_ = 0;
  RunResult unpatched_;
};

}  // namespace hooked
