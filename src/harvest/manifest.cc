#include "harvest/manifest.h"

#include <ATen/Parallel.h>
#include <c10/util/hash.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/config_reader.h"
#include "hooked/core/error.h"
#include "hooked/core/kernel_set.h"
#include "hooked/core/tensor_text.h"
#include "hooked/core/version.h"
#include "hooked/io/file.h"
#include "io/files/path_text.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

constexpr std::string_view kFormatWord = "hooked activations";
/// Of 2^40 tokens in the units that harvest() cuts: 17 million of them, with their records.
constexpr std::uint64_t kManifestBytes = std::uint64_t{8} << 30;
constexpr std::uint64_t kRecordBytes = 1 << 20;

std::string tokenizer_fingerprint(const Tokenizer& tokenizer) {
  std::string all = tokenizer.form() + "\n" + std::string(tokenizer.kind()) + "\n";
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    try {
      all += tokenizer.piece(id);
    } catch (const TokenizerError&) {  // a gap
    }
    all += '\n';
  }
  return c10::sha1(all).str();
}

std::string edit_text(const Edit& edit, const PointIndex& points) {
  std::string text;
  for (const std::size_t point : edit.target.where.resolve(points, Reach::everything(points)))
    text += (text.empty() ? "" : "|") + points.name(point).to_string();
  constexpr const char* words[] = {"set", "add", "scale", "replace", "project_out"};
  text += edit.target.indices.to_string() + " " + words[static_cast<std::size_t>(edit.kind)] + " ";
  if (const auto* number = std::get_if<double>(&edit.value)) return text + fmt::format("{}", *number);
  const at::Tensor value = std::get<at::Tensor>(edit.value).detach().cpu().contiguous();
  const std::string bytes(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
  return text + fmt::format("{} {} {}", dtype_text(value.scalar_type()), shape_text(value.sizes()),
                            c10::sha1(bytes).str());
}

Json token_json(std::int64_t token) { return token == ContextOptions::kNone ? Json(nullptr) : Json(token); }

Json record_json(const UnitRecord& record) {
  Json shards = Json::array();
  for (const ShardRecord& shard : record.shards)
    shards.push_back(
        {{"file", shard.file}, {"rows", shard.rows}, {"bytes", shard.bytes}, {"crc32", shard.crc32}});
  Json json = {{"unit", record.unit}, {"contexts", record.contexts},     {"tokens", record.tokens},
               {"rows", record.rows}, {"not_finite", record.not_finite}, {"shards", std::move(shards)}};
  if (record.run) json["run"] = *record.run;
  return json;
}

// The most that a number of a unit can be: bytes or rows whose sums over all units fit 64 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 48;
constexpr std::int64_t kMostCrc32 = 0xFFFF'FFFF;

// An integer from 0 on. The JSON library's own conversion takes fractions, other signs and true. Throws
// std::invalid_argument.
std::int64_t count_of(const Json& value, std::string_view what, std::int64_t most = kMost) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most))
    return value.get<std::int64_t>();
  throw std::invalid_argument(
      fmt::format("{} is {}, not an integer from 0 to {}", what, printable(json_text(value)), most));
}

std::int64_t count_at(const Json& json, const char* key, std::int64_t most = kMost) {
  return count_of(json.at(key), key, most);
}

UnitRecord record_of(const Json& json) {
  UnitRecord record{.unit = count_at(json, "unit"),
                    .contexts = count_at(json, "contexts"),
                    .tokens = count_at(json, "tokens"),
                    .rows = count_at(json, "rows"),
                    .not_finite = count_at(json, "not_finite"),
                    .shards = {},
                    .run = {}};
  std::int64_t rows = 0;
  for (const Json& shard : json.at("shards")) {
    const std::string file = shard_name(record.unit, record.shards.size());
    if (shard.at("file") != file) throw std::invalid_argument(fmt::format("a shard is not '{}'", file));
    record.shards.push_back({file, count_at(shard, "rows"),
                             static_cast<std::uint64_t>(count_at(shard, "bytes")),
                             static_cast<std::uint32_t>(count_at(shard, "crc32", kMostCrc32))});
    rows += record.shards.back().rows;
  }
  if (rows != record.rows)
    throw std::invalid_argument(fmt::format("a unit of {} rows has shards with {}", record.rows, rows));
  if (json.contains("run")) record.run = json.at("run");
  return record;
}

CorpusUnit unit_of(const Json& json) {
  const auto number = [&](std::size_t i, std::int64_t most = kMost) {
    return count_of(json.at(i), "a number of its plan", most);
  };
  const CorpusUnit unit{.file = number(0),
                        .begin = static_cast<std::uint64_t>(number(1)),
                        .end = static_cast<std::uint64_t>(number(2)),
                        .first_document = number(3),
                        .crc32 = static_cast<std::uint32_t>(number(4, kMostCrc32))};
  if (unit.end < unit.begin) throw std::invalid_argument("a unit of its plan ends before it begins");
  return unit;
}

// Calls `read` and turns what it finds wrong into an error about the file.
template <typename Read>
auto reading(const std::filesystem::path& file, const Read& read) {
  try {
    return read();
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(
        path_text(file), fmt::format("the file is damaged: {}; expected what a harvest wrote", error.what()));
  } catch (const Json::exception& error) {
    throw CheckpointError(
        path_text(file),
        fmt::format("the file is damaged: {}; expected what a harvest wrote", printable(error.what())));
  }
}

Json run_json(const UnitRuns& runs) {
  const int threads = runs.options().threads.value_or(at::get_num_threads());
  Json run{{"device", runs.model().device().str()},
           {"kernels", to_string(kernel_set())},
           {"threads", threads},
           {"batch_tokens", runs.options().batch_tokens}};
  if (runs.model().weight_storage() == WeightStorage::stored) run["weights"] = "stored";
  return run;
}

}  // namespace

Json Manifest::settings(const UnitRuns& runs, const StoreOptions& store) {
  const HookedTransformer& model = runs.model();
  const Provenance from = model.provenance();
  Json processing = Json::object();
  for (const auto& [step, outcome] : from.processing) processing[step] = outcome;
  Json edits = Json::array();
  for (const Edit& edit : runs.options().edits) edits.push_back(edit_text(edit, model.points()));
  Json files = Json::array();
  for (const CorpusFile& file : runs.corpus().files())
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  Json activations = Json::array();
  for (const HarvestedName& name : runs.names()) {
    activations.push_back({{"name", name.name.to_string()},
                           {"axes", name.axes()},
                           {"shape", name.shape},
                           {"dtype", dtype_text(name.dtype)}});
  }
  const ContextRules& rules = runs.rules();
  const RowOptions& rows = runs.options().rows;
  Json json = {{"format", kFormatWord},
               {"version", kStoreVersion},
               {"hooked_version", version()},
               {"model",
                {{"name", from.model},
                 {"revision", from.revision},
                 {"fingerprint", from.fingerprint},
                 {"config_sha1", from.config_sha1},
                 {"dtype", from.dtype},
                 {"processing", std::move(processing)}}},
               {"tokenizer", rules.tokenizer ? Json(tokenizer_fingerprint(*rules.tokenizer)) : Json(nullptr)},
               {"run", run_json(runs)},
               {"edits", std::move(edits)},
               {"corpus",
                {{"path", path_text(runs.corpus().path())},
                 {"fingerprint", runs.corpus().fingerprint()},
                 {"files", std::move(files)},
                 {"unit_tokens", store.unit_tokens}}},
               {"contexts",
                {{"length", rules.length},
                 {"packed", rules.packed},
                 {"begin_context", token_json(rules.begin_context)},
                 {"begin_document", token_json(rules.begin_document)},
                 {"separator", token_json(rules.separator)},
                 {"before", rules.around.before},
                 {"after", rules.around.after}}},
               {"rows",
                {{"exclude_special_tokens", rows.exclude_special_tokens},
                 {"exclude_tokens", rows.exclude_tokens},
                 {"skip_first", rows.skip_first},
                 {"share", rows.share},
                 {"seed", rows.seed}}},
               {"shard_bytes", store.shard_bytes},
               {"activations", std::move(activations)}};
  if (from.more.contains("dictionaries")) json["model"]["dictionaries"] = from.more.at("dictionaries");
  if (store.reduce) {
    json["reduce"] = {{"moments", store.reduce.moments},
                      {"examples", store.reduce.examples},
                      {"example_before", store.reduce.example_before},
                      {"example_after", store.reduce.example_after}};
  }
  return json;
}

Manifest Manifest::read(const std::filesystem::path& folder) {
  const auto file = folder / kManifest;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    throw IoError(path_text(folder),
                  fmt::format("the folder holds no {}; expected a store that a harvest wrote", kManifest));
  }
  const std::string text = read_text_file(file, kManifestBytes);
  return reading(file, [&] {
    Manifest manifest{.head = parse_json(text, {.bytes = text.size()}), .plan = {}, .units = {}};
    Json& head = manifest.head;
    if (!head.is_object() || head.value("format", "") != kFormatWord)
      throw std::invalid_argument(fmt::format("it lacks \"format\": \"{}\"", kFormatWord));
    if (const auto stated = count_at(head, "version"); stated > kStoreVersion) {
      throw CheckpointError(
          path_text(file),
          fmt::format("the store's version is {}; expected at most {}; a newer hooked reads it", stated,
                      kStoreVersion));
    }
    for (const Json& unit : head.at("plan")) manifest.plan.push_back(unit_of(unit));
    head.erase("plan");
    if (head.contains("units")) {
      manifest.units.emplace();
      for (const Json& unit : head.at("units")) manifest.units->push_back(record_of(unit));
      head.erase("units");
      if (manifest.units->size() != manifest.plan.size())
        throw std::invalid_argument("it lists another number of units than its plan");
      for (std::size_t i = 0; i < manifest.units->size(); ++i) {
        if ((*manifest.units)[i].unit != static_cast<std::int64_t>(i))
          throw std::invalid_argument("its units are not in order");
      }
    }
    return manifest;
  });
}

void Manifest::write(const std::filesystem::path& folder) const {
  Json json = head;
  Json& units_cut = json["plan"] = Json::array();
  for (const CorpusUnit& unit : plan)
    units_cut.push_back({unit.file, unit.begin, unit.end, unit.first_document, unit.crc32});
  if (units) {
    Json& there = json["units"] = Json::array();
    for (const UnitRecord& record : *units) there.push_back(record_json(record));
  }
  write_file(folder / kManifest, json_text(json) + "\n");
}

void Manifest::require_same(const Json& settings, const std::filesystem::path& folder, bool mixed) const {
  // Where the same model and corpus lie, and which version reads them, may differ.
  const auto comparable = [](Json json) {
    json.erase("hooked_version");
    json.at("model").erase("name");
    json.at("model").erase("revision");
    json.at("corpus").erase("path");
    return json;
  };
  const Json had = reading(folder / kManifest, [&] { return comparable(head); });
  const Json have = comparable(settings);
  const auto refuse = [&](const std::string& what, const Json& before, const Json& now,
                          std::string_view cure) {
    throw IoError(path_text(folder),
                  fmt::format("the harvest there was begun with other settings; expected {} = {}, got {}; {}",
                              what, json_text(before), json_text(now), cure));
  };
  for (const auto& [key, now] : have.items()) {
    const Json before = had.value(key, Json());
    if (before == now || (key == "run" && mixed)) continue;
    const std::string_view cure =
        key == "run" ? "--mixed continues and labels each unit" : "choose another folder";
    if (!now.is_object() || !before.is_object()) refuse(key, before, now, cure);
    for (const auto& [inner, value] : now.items()) {
      if (before.value(inner, Json()) != value)
        refuse(key + "." + inner, before.value(inner, Json()), value, cure);
    }
    refuse(key, before, now, cure);
  }
  if (had.contains("reduce") && !have.contains("reduce"))
    refuse("reduce", had.at("reduce"), Json(), "choose another folder");
}

std::vector<StoredActivation> Manifest::activations(const std::filesystem::path& folder) const {
  return reading(folder / kManifest, [&] {
    std::vector<StoredActivation> all;
    for (const Json& json : head.at("activations")) {
      const auto& dtype = json.at("dtype").get_ref<const std::string&>();
      const auto known = dtype == dtype_text(at::kLong) ? at::kLong : parse_float_dtype(dtype);
      if (!known)
        throw std::invalid_argument(fmt::format("'{}' is not a dtype of activations", printable(dtype)));
      std::vector<std::int64_t> shape;
      for (const Json& size : json.at("shape")) shape.push_back(count_of(size, "a size of an activation"));
      all.push_back(
          {.name = json.at("name"), .axes = json.at("axes"), .shape = std::move(shape), .dtype = *known});
    }
    return all;
  });
}

bool Manifest::reduces() const { return head.contains("reduce"); }

std::string record_name(std::int64_t unit) { return fmt::format("unit-{:06}.json", unit); }

bool is_record(std::string_view name) { return name.starts_with("unit-") && name.ends_with(".json"); }

std::string shard_name(std::int64_t unit, std::size_t shard) {
  return fmt::format("unit-{:06}-{:03}.safetensors", unit, shard);
}

void write_record(const std::filesystem::path& folder, const UnitRecord& record) {
  write_file(folder / record_name(record.unit), json_text(record_json(record)) + "\n");
}

std::optional<UnitRecord> read_record(const std::filesystem::path& folder, std::int64_t unit) {
  const auto file = folder / record_name(unit);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  std::string text;
  try {
    text = read_text_file(file, kRecordBytes);
  } catch (const IoError&) {
    if (!std::filesystem::exists(file, error)) return std::nullopt;  // another process has joined the store
    throw;
  }
  return reading(file, [&] {
    UnitRecord record = record_of(parse_json(text, {.bytes = kRecordBytes}));
    if (record.unit != unit) throw std::invalid_argument("it is of another unit");
    return record;
  });
}

std::vector<std::optional<UnitRecord>> read_records(const std::filesystem::path& folder, Manifest& manifest) {
  const auto joined = [&] {
    return std::vector<std::optional<UnitRecord>>(manifest.units->begin(), manifest.units->end());
  };
  if (manifest.units) return joined();
  std::vector<std::optional<UnitRecord>> records;
  for (std::size_t i = 0; i < manifest.plan.size(); ++i)
    records.push_back(read_record(folder, static_cast<std::int64_t>(i)));
  if (std::ranges::all_of(records, [](const auto& record) { return record.has_value(); })) return records;
  manifest = Manifest::read(folder);
  return manifest.units ? joined() : records;
}

StoreStatus status_of(const Manifest& manifest, const std::vector<std::optional<UnitRecord>>& records) {
  StoreStatus status{.units = static_cast<std::int64_t>(records.size()),
                     .joined = manifest.units.has_value()};
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i]) {
      status.missing.push_back(static_cast<std::int64_t>(i));
      continue;
    }
    status.rows += records[i]->rows;
    status.contexts += records[i]->contexts;
    status.tokens += records[i]->tokens;
    status.not_finite += records[i]->not_finite;
    status.shards += static_cast<std::int64_t>(records[i]->shards.size());
    for (const ShardRecord& shard : records[i]->shards) status.bytes += shard.bytes;
  }
  return status;
}

}  // namespace hooked
