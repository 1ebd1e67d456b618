#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/harvest/corpus.h"
#include "hooked/harvest/harvest_options.h"
#include "hooked/hooks/address.h"

namespace HOOKED_EXPORT hooked {

/// A share of the units of a corpus: every `of`-th, from `index` on.
struct UnitShare {
  std::int64_t index = 0;  ///< from 0
  std::int64_t of = 1;     ///< shares in all

  /// The share that the launcher of this process gives it: RANK of WORLD_SIZE (torchrun, Kubernetes),
  /// SLURM_ARRAY_TASK_ID of an array, SLURM_PROCID of SLURM_NTASKS. Throws ConfigError if the environment
  /// names none, or one that does not exist.
  static UnitShare of_launcher();
};

/// What is computed from activations instead of keeping them. For designated initialisers.
struct ReductionOptions {
  /// Number, sum and sum of products of every activation's rows, [d] and [d, d] in float64, for means,
  /// whitening and principal components (ActivationMoments).
  bool moments = false;
  /// For each feature of the dictionaries' codes among the names (`….hook_sae_acts_post`), how many tokens at
  /// which it was largest (FeatureExamples). 0: none.
  std::int64_t examples = 0;
  std::int64_t example_before = 10;  ///< tokens that are kept before each example's
  std::int64_t example_after = 5;    ///< and after it, of the same context

  /// Whether anything is asked for; then no activations are kept.
  explicit operator bool() const noexcept { return moments || examples > 0; }
};

/// How a harvest is written to disk. For designated initialisers.
struct StoreOptions {
  /// Tokens of a unit, about: what a kill loses at most. See Corpus::units().
  std::uint64_t unit_tokens = 65'536;
  /// A unit's rows are split into files of at most this size in bytes (but at least a row).
  std::uint64_t shard_bytes = std::uint64_t{1} << 30;
  UnitShare share = {};  ///< the units that this process works on
  /// Exactly these units instead; an empty list only cuts the corpus and writes the manifest.
  std::optional<std::vector<std::int64_t>> units = std::nullopt;
  /// Continue with another number of threads or set of kernels than the harvest began with, which may change
  /// the last bits: each unit is labelled.
  bool mixed = false;
  ReductionOptions reduce = {};  ///< instead of activations
  /// Reports the bytes of the corpus while it is cut into units, before the first run.
  Progress planning = nullptr;
};

/// What a store on disk holds so far.
struct StoreStatus {
  std::int64_t units = 0;                  ///< that the corpus was cut into
  std::vector<std::int64_t> missing = {};  ///< missing ones, ascending
  std::int64_t rows = 0;                   ///< of the units that are there
  std::int64_t contexts = 0;               ///< that the model read for them
  std::int64_t tokens = 0;                 ///< of these contexts, padding left out
  std::int64_t not_finite = 0;             ///< rows with a number that is NaN or infinite
  std::uint64_t bytes = 0;                 ///< of all shards
  std::int64_t shards = 0;                 ///< files
  bool joined = false;                     ///< whether the manifest lists all units

  bool complete() const { return missing.empty(); }  ///< whether all units are there
};

/// What a harvest has done.
struct HarvestSummary {
  StoreStatus status;                   ///< of the store, other processes' units included
  std::int64_t units_done = 0;          ///< units that this call made
  std::int64_t tokens = 0;              ///< that the model read in this call
  double seconds = 0;                   ///< of this call
  bool ended_early = false;             ///< progress() said so
  std::vector<std::string> notes = {};  ///< such as files that were not read
};

/// What a harvest would take.
struct HarvestEstimate {
  std::int64_t units = 0;        ///< units of all shares
  std::int64_t tokens = 0;       ///< that the model would read; estimated from a few units
  std::int64_t rows = 0;         ///< that would be kept; estimated from the same
  std::uint64_t bytes = 0;       ///< of the store; estimated from the same
  std::int64_t shards = 0;       ///< files; estimated
  bool exact = false;            ///< whether all units were looked at
  double tokens_per_second = 0;  ///< measured on one batch
  double seconds = 0;            ///< of one process with all units
};

/// Runs the model over a corpus and writes the activations of its tokens to the folder `out`, an activation
/// store (ActivationStore reads it; docs/harvest.md has its format).
///
///     harvest(model, Corpus::open("corpus.jsonl"), "acts", {.names = act::resid_post(5)});
///
/// Nothing is lost: a unit is there as a whole or not at all, whenever the process or the machine stops, and
/// the same call continues where it stopped. The bytes of the finished store equal those of an uninterrupted
/// run. When all units are there, those of other processes included, the manifest lists them, and reductions
/// are summed up.
///
/// Throws IoError for a folder that holds anything else or another harvest, that another process works on
/// with the same share, and if a file cannot be written (what is there stays, and the same call continues
/// after that was fixed); and what ActivationStream throws.
HarvestSummary harvest(const HookedTransformer& model, const Corpus& corpus, const std::filesystem::path& out,
                       const HarvestOptions& options, const StoreOptions& store = {});

/// Throws what harvest() would throw about the folder, before a model is loaded.
void require_can_harvest(const std::filesystem::path& out);

/// What harvest() would write and take, from a few units of the corpus and one timed run. Writes nothing.
HarvestEstimate estimate_harvest(const HookedTransformer& model, const Corpus& corpus,
                                 const HarvestOptions& options, const StoreOptions& store = {});

/// What a store holds so far. Throws IoError and CheckpointError.
StoreStatus store_status(const std::filesystem::path& folder);

/// Makes one manifest of all units, if they are all there, as the harvest that makes the last unit does.
/// Throws CheckpointError naming missing units, IoError.
StoreStatus join_store(const std::filesystem::path& folder);

/// Reads every shard and compares its checksum. Throws CheckpointError naming the first that differs.
StoreStatus verify_store(const std::filesystem::path& folder, const Progress& progress = nullptr);

}  // namespace hooked
