#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "harvest/unit_runs.h"
#include "hooked/harvest/activation_store.h"
#include "hooked/harvest/harvest.h"

namespace hooked {

inline constexpr const char* kManifest = "manifest.json";
inline constexpr std::int64_t kStoreVersion = 1;

/// A file of a unit.
struct ShardRecord {
  std::string file;
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
};

/// A unit that is there.
struct UnitRecord {
  std::int64_t unit = 0;
  std::int64_t contexts = 0, tokens = 0, rows = 0;
  std::int64_t not_finite = 0;  ///< rows with a number that is NaN or infinite
  std::vector<ShardRecord> shards;
  /// What it was computed with, if that is not what the manifest says.
  std::optional<Json> run;
};

/// What a store's manifest says. Note [A store's files]: `manifest.json` is written before the first unit and
/// says all but which units are there. Each unit has its shards, and when these are on the disk, a record
/// `unit-000012.json`, which makes them count. When all are there, the manifest is replaced by one with all
/// records, and these are removed. So every file is written as a whole, by one process, in one step; nothing
/// is appended to, and processes need not know of each other.
struct Manifest {
  Json head;                     ///< the settings, without plan and units
  std::vector<CorpusUnit> plan;  ///< units of the corpus
  /// Of all units, once they are joined.
  std::optional<std::vector<UnitRecord>> units;

  /// The settings of a harvest.
  static Json settings(const UnitRuns& runs, const StoreOptions& store);

  /// Throws IoError if there is none, CheckpointError if it is damaged or of a newer version.
  static Manifest read(const std::filesystem::path& folder);
  void write(const std::filesystem::path& folder) const;

  /// Throws IoError unless a harvest with these settings may go on here; with `mixed`, what it runs on may
  /// differ.
  void require_same(const Json& settings, const std::filesystem::path& folder, bool mixed) const;

  std::vector<StoredActivation> activations(const std::filesystem::path& folder) const;
  bool reduces() const;  ///< whether its shards hold reductions
};

/// The names of a unit's record and of its shards.
std::string record_name(std::int64_t unit);
bool is_record(std::string_view name);
std::string shard_name(std::int64_t unit, std::size_t shard);

void write_record(const std::filesystem::path& folder, const UnitRecord& record);
/// Nothing if the unit is not there. Throws CheckpointError for a record that is damaged.
std::optional<UnitRecord> read_record(const std::filesystem::path& folder, std::int64_t unit);

/// The records of all units that are there, by number, also while another process joins the store; `manifest`
/// is read again then.
std::vector<std::optional<UnitRecord>> read_records(const std::filesystem::path& folder, Manifest& manifest);

/// What is there.
StoreStatus status_of(const Manifest& manifest, const std::vector<std::optional<UnitRecord>>& records);

}  // namespace hooked
