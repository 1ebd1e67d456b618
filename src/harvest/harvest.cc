#include "hooked/harvest/harvest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "core/name_list.h"
#include "harvest/manifest.h"
#include "harvest/share_lock.h"
#include "harvest/unit_reduction.h"
#include "harvest/unit_runs.h"
#include "harvest/unit_writer.h"
#include "hooked/core/error.h"
#include "io/files/atomic_file.h"
#include "io/files/checksum.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string_view all(text);
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (problem != std::errc() || end != all.data() + all.size())
    throw ConfigError(name,
                      fmt::format("'{}' is not a number; expected what the launcher sets", path_text(text)));
  return number;
}

void require_share(const UnitShare& share, std::string_view where) {
  if (share.of >= 1 && share.index >= 0 && share.index < share.of) return;
  throw ConfigError(
      where,
      fmt::format("share {} of {} does not exist; expected shares from 0 to one less than their number",
                  share.index, share.of));
}

// The manifest of the store in a folder that a harvest may write to, if it has one.
std::optional<Manifest> store_in(const fs::path& out) {
  require_outside_hub_cache(out, path_text(out));
  std::error_code error;
  if (!fs::exists(out, error)) return std::nullopt;
  if (!fs::is_directory(out, error))
    throw IoError(path_text(out), "it is a file; expected a folder, which may be new");
  if (fs::exists(out / kManifest, error)) return Manifest::read(out);
  std::vector<std::string> names = names_in(out);
  std::erase_if(names,
                [](const std::string& name) { return AtomicFile::is_partial(name) || is_share_lock(name); });
  if (!names.empty()) {
    throw IoError(
        path_text(out),
        fmt::format("the folder holds files that no harvest wrote: {}; expected a new folder, an empty "
                    "one, or that of a harvest",
                    name_list(names)));
  }
  return std::nullopt;
}

// That of a store that is there, which must have these settings, or a new one.
Manifest manifest_in(const fs::path& folder, std::optional<Manifest> there, const UnitRuns& runs,
                     const StoreOptions& store, const Json& settings) {
  if (there) {
    there->require_same(settings, folder, store.mixed);
    return *std::move(there);
  }
  Manifest manifest{
      .head = settings, .plan = runs.corpus().units(store.unit_tokens, store.planning), .units = {}};
  // Another process may have written it by now, and even have joined all units.
  std::error_code error;
  if (fs::exists(folder / kManifest, error))
    return manifest_in(folder, Manifest::read(folder), runs, store, settings);
  fs::create_directories(folder, error);
  if (error)
    throw IoError(path_text(folder), fmt::format("the folder cannot be created: {}", error.message()));
  manifest.write(folder);
  return manifest;
}

std::vector<std::int64_t> share_of(const Manifest& manifest, const StoreOptions& store) {
  const auto count = static_cast<std::int64_t>(manifest.plan.size());
  std::vector<std::int64_t> units;
  if (!store.units) {
    for (std::int64_t unit = store.share.index; unit < count; unit += store.share.of) units.push_back(unit);
    return units;
  }
  for (const std::int64_t unit : *store.units) {
    if (unit < 0 || unit >= count)
      throw ConfigError("units", fmt::format("unit {} does not exist; expected 0 to {}", unit, count - 1));
    if (std::ranges::find(units, unit) == units.end()) units.push_back(unit);
  }
  return units;
}

// What is needed no longer once the manifest lists all units. Another process may do the same.
void remove_leftovers(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code gone;
    if (is_record(name) || AtomicFile::is_partial(name) || is_share_lock(name))
      fs::remove(entry.path(), gone);
  }
}

// All records in the manifest, and nothing else in the folder but shards.
void join(const fs::path& folder, Manifest& manifest, const std::vector<std::optional<UnitRecord>>& records) {
  if (manifest.units) return remove_leftovers(folder);
  std::vector<UnitRecord> units;
  for (const auto& record : records) {
    units.push_back(*record);
    for (const ShardRecord& shard : record->shards) {
      std::error_code error;
      if (fs::file_size(folder / shard.file, error) == shard.bytes && !error) continue;
      throw CheckpointError(
          path_text(folder / shard.file),
          fmt::format("the shard of unit {} is missing or has another size; expected {} bytes; "
                      "remove {} and run the harvest again",
                      record->unit, shard.bytes, record_name(record->unit)));
    }
  }
  if (manifest.reduces()) join_reductions(folder, manifest, units);
  manifest.units = std::move(units);
  manifest.write(folder);
  remove_leftovers(folder);
}

/// Ends a run whose unit is dropped.
struct EndedEarly {};

void run_unit(const UnitRuns& runs, const PreparedUnit& unit, std::int64_t number, UnitWriter& writer,
              HarvestClock& clock) {
  const auto& progress = runs.options().progress;
  writer.begin(number, unit);
  UnitSteps steps(runs, unit, clock);
  while (const auto rows = steps.next()) {
    writer.add(*rows);
    if (progress && !progress(clock.progress())) throw EndedEarly();
  }
  writer.end();
}

}  // namespace

UnitShare UnitShare::of_launcher() {
  constexpr std::pair<const char*, const char*> launchers[] = {
      {"RANK", "WORLD_SIZE"},
      {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"},
      {"SLURM_PROCID", "SLURM_NTASKS"},
      {"JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"}};
  for (const auto& [index, of] : launchers) {
    const auto number = environment_number(index), count = environment_number(of);
    if (!number || !count) continue;
    UnitShare share{.index = *number, .of = *count};
    if (std::string_view(index) == "SLURM_ARRAY_TASK_ID")
      share.index -= environment_number("SLURM_ARRAY_TASK_MIN").value_or(0);
    require_share(share, index);
    return share;
  }
  throw ConfigError(
      "units",
      "no launcher has set RANK and WORLD_SIZE, SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, "
      "SLURM_PROCID and SLURM_NTASKS, or JOB_COMPLETION_INDEX and JOB_COMPLETIONS; expected one of "
      "these, or a share K/N");
}

void require_can_harvest(const fs::path& out) { static_cast<void>(store_in(out)); }

HarvestSummary harvest(const HookedTransformer& model, const Corpus& corpus, const fs::path& out,
                       const HarvestOptions& options, const StoreOptions& store) {
  require_share(store.share, "units");
  if (store.shard_bytes == 0) throw ConfigError("shard_bytes", "a shard has no bytes; expected 1 or more");
  std::optional<Manifest> there = store_in(out);
  UnitRuns runs(model, corpus, options);
  if (store.reduce) require_reducible(runs.names(), store.reduce);
  const Json settings = Manifest::settings(runs, store);
  Manifest manifest = manifest_in(out, std::move(there), runs, store, settings);
  std::optional<ShareLock> lock;
  if (!store.units && !manifest.units) lock.emplace(out, store.share);
  auto records = read_records(out, manifest);

  HarvestSummary summary;
  std::vector<std::int64_t> numbers;
  std::vector<CorpusUnit> units;
  const auto mine = share_of(manifest, store);
  for (const std::int64_t unit : mine) {
    if (records[static_cast<std::size_t>(unit)]) continue;
    numbers.push_back(unit);
    units.push_back(manifest.plan[static_cast<std::size_t>(unit)]);
  }
  if (const auto ignored = corpus.ignored(); !ignored.empty())
    summary.notes.push_back(
        fmt::format("these files of the corpus's folder hold no documents: {}", name_list(ignored)));

  std::optional<Json> run;
  const Json& now = settings.at("run");
  if (manifest.head.at("run") != now) run = now;
  HarvestClock clock(units, static_cast<std::int64_t>(mine.size() - units.size()));
  if (options.progress) {
    runs.call_between_layers([&] {
      if (!options.progress(clock.progress())) throw EndedEarly();
    });
  }
  UnitQueue queue(runs, units);
  const auto writer = UnitWriter::create(runs, store, out, run);
  try {
    with_memory(runs.memory(), [&] {
      for (const std::int64_t number : numbers) {
        const auto unit = queue.next();
        run_unit(runs, *unit, number, *writer, clock);
        ++summary.units_done;
      }
    });
  } catch (const EndedEarly&) {
    summary.ended_early = true;
  }
  with_memory(runs.memory(), [&] { writer->finish(); });
  records = read_records(out, manifest);
  if (std::ranges::all_of(records, [](const auto& record) { return record.has_value(); }))
    join(out, manifest, records);
  summary.status = status_of(manifest, records);
  if (summary.status.not_finite > 0) {
    summary.notes.push_back(fmt::format("{}{} of {} rows hold numbers that are NaN or infinite", kNotFinite,
                                        summary.status.not_finite, summary.status.rows));
  }
  summary.tokens = clock.tokens();
  summary.seconds = clock.seconds();
  return summary;
}

HarvestEstimate estimate_harvest(const HookedTransformer& model, const Corpus& corpus,
                                 const HarvestOptions& options, const StoreOptions& store) {
  constexpr std::size_t kSamples = 8;
  const UnitRuns runs(model, corpus, options);
  if (store.reduce) require_reducible(runs.names(), store.reduce);
  const auto units = corpus.units(store.unit_tokens, store.planning);
  HarvestEstimate estimate{.units = static_cast<std::int64_t>(units.size()),
                           .exact = units.size() <= kSamples};
  const std::size_t samples = std::min(kSamples, units.size());
  double looked_at = 0, all = 0, tokens = 0, rows = 0;
  for (const CorpusUnit& unit : units) all += static_cast<double>(unit.end - unit.begin);
  for (std::size_t i = 0; i < samples; ++i) {
    const CorpusUnit& unit = units[i * units.size() / samples];
    const PreparedUnit prepared = runs.prepare(unit);
    looked_at += static_cast<double>(unit.end - unit.begin);
    tokens += static_cast<double>(prepared.contexts.tokens.size());
    rows += static_cast<double>(prepared.kept.size());
    if (estimate.tokens_per_second > 0 || prepared.kept.empty()) continue;
    for (const bool timed : {false, true}) {  // the first run of a model takes longer
      const auto began = std::chrono::steady_clock::now();
      const std::size_t end = runs.run_end(prepared, 0);
      static_cast<void>(runs.run(prepared, 0, end));
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
      if (timed)
        estimate.tokens_per_second = static_cast<double>(prepared.contexts.ends[end - 1]) / seconds.count();
    }
  }
  const double scale = looked_at > 0 ? all / looked_at : 0;
  estimate.tokens = static_cast<std::int64_t>(tokens * scale);
  estimate.rows = static_cast<std::int64_t>(rows * scale);
  if (store.reduce) {
    estimate.shards = estimate.units;
  } else {
    estimate.bytes = static_cast<std::uint64_t>(rows * scale) * runs.row_bytes();
    const auto unit_rows = static_cast<std::uint64_t>(units.empty() ? 0 : estimate.rows / estimate.units);
    const std::uint64_t shard_rows = std::max<std::uint64_t>(1, store.shard_bytes / runs.row_bytes());
    estimate.shards = estimate.units * static_cast<std::int64_t>((unit_rows + shard_rows - 1) / shard_rows);
  }
  if (estimate.tokens_per_second > 0)
    estimate.seconds = static_cast<double>(estimate.tokens) / estimate.tokens_per_second;
  return estimate;
}

StoreStatus store_status(const fs::path& folder) {
  Manifest manifest = Manifest::read(folder);
  const auto records = read_records(folder, manifest);
  return status_of(manifest, records);
}

StoreStatus join_store(const fs::path& folder) {
  Manifest manifest = Manifest::read(folder);
  const auto records = read_records(folder, manifest);
  const StoreStatus status = status_of(manifest, records);
  if (!status.complete()) {
    std::vector<std::string> missing;
    for (const std::int64_t unit : status.missing) missing.push_back(std::to_string(unit));
    throw CheckpointError(
        path_text(folder),
        fmt::format("{} of {} units are missing: {}; expected all; run the harvest again for "
                    "these",
                    missing.size(), status.units, name_list(missing)));
  }
  join(folder, manifest, records);
  return status_of(manifest, records);
}

StoreStatus verify_store(const fs::path& folder, const Progress& progress) {
  Manifest manifest = Manifest::read(folder);
  const auto records = read_records(folder, manifest);
  const StoreStatus status = status_of(manifest, records);
  std::uint64_t done = 0;
  for (const auto& record : records) {
    if (!record) continue;
    for (const ShardRecord& shard : record->shards) {
      const std::uint32_t crc = file_crc32(folder / shard.file);
      if (crc != shard.crc32) {
        throw CheckpointError(
            path_text(folder / shard.file),
            fmt::format(
                "its bytes are not those that were written; expected CRC-32 {:08x}, got {:08x}; remove "
                "the file and {}, and run the harvest again",
                shard.crc32, crc, manifest.units ? "the store" : record_name(record->unit)));
      }
      done += shard.bytes;
      if (progress) progress(done, status.bytes);
    }
  }
  return status;
}

}  // namespace hooked
