#include "hooked/io/provenance.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string_view>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/version.h"
#include "io/files/path_text.h"
#include "io/safetensors/provenance_keys.h"

namespace hooked {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr const char* kFormat = "format";
constexpr const char* kVersion = "hooked_version";  // files that have it are ours
constexpr const char* kProcessing = "processing";
constexpr const char* kEdits = "edits";
constexpr const char* kTexts = "texts";
constexpr const char* kTokens = "tokens";
constexpr const char* kAxes = "axes";

/// Entries that are one text as it is.
struct TextEntry {
  const char* key;
  std::string Provenance::*value;
};
constexpr std::array kTextEntries = {
    TextEntry{kVersion, &Provenance::hooked_version},   TextEntry{"model", &Provenance::model},
    TextEntry{"revision", &Provenance::revision},       TextEntry{"config_sha1", &Provenance::config_sha1},
    TextEntry{"fingerprint", &Provenance::fingerprint}, TextEntry{"dtype", &Provenance::dtype},
};
// Entries that are JSON.
constexpr std::array kJsonKeys = {kProcessing, kEdits, kTexts, kTokens, kAxes};

bool is_taken(std::string_view key) {
  if (key == kFormat || key.starts_with(kCacheKeyPrefix)) return true;
  for (const auto& entry : kTextEntries) {
    if (key == entry.key) return true;
  }
  for (const std::string_view taken : kJsonKeys) {
    if (key == taken) return true;
  }
  return false;
}

/// The metadata of one file, read strictly: every present key must have its form.
class Record {
 public:
  explicit Record(const SafetensorsFile& file) : metadata_(file.metadata()), where_(path_text(file.path())) {}

  bool is_ours() const { return metadata_.contains(kVersion); }

  /// Reads the JSON under `key` into `value`, which is unchanged if there is none.
  template <typename Value>
  void read(const char* key, std::string_view form, Value& value) const {
    const auto found = metadata_.find(key);
    if (!is_ours() || found == metadata_.end()) return;
    try {
      take(parse_json(found->second, {.bytes = SafetensorsLimits::kMetadataBytes}), value);
    } catch (const std::invalid_argument& error) {
      refuse(key, form, error.what());
    } catch (const Json::exception&) {
      refuse(key, form, printable(found->second));
    }
  }

  [[noreturn]] void refuse(std::string_view key, std::string_view form, std::string_view got) const {
    throw CheckpointError(where_,
                          fmt::format("the metadata '{}' are damaged; expected {}, got {}", key, form, got));
  }

 private:
  template <typename Value>
  static void take(const Json& json, std::optional<Value>& value) {
    take(json, value.emplace());
  }
  static void take(const Json& json, std::vector<std::string>& value) {
    for (const Json& one : json.get_ref<const Json::array_t&>())
      value.push_back(one.get_ref<const std::string&>());
  }
  static void take(const Json& json, std::vector<std::vector<std::int64_t>>& value) {
    for (const Json& row : json.get_ref<const Json::array_t&>()) {
      auto& ids = value.emplace_back();
      for (const Json& id : row.get_ref<const Json::array_t&>())
        ids.push_back(id.get_ref<const Json::number_integer_t&>());
    }
  }
  static void take(const Json& json, std::vector<std::pair<std::string, std::string>>& value) {
    for (const auto& [step, outcome] : json.get_ref<const Json::object_t&>())
      value.emplace_back(step, outcome.get_ref<const std::string&>());
  }
  static void take(const Json& json, TensorAxes& value) {
    for (const auto& [name, axes] : json.get_ref<const Json::object_t&>()) take(axes, value[name]);
  }

  const Metadata& metadata_;
  const std::string where_;
};

}  // namespace

std::map<std::string, std::string> to_metadata(const Provenance& provenance, const TensorAxes& axes) {
  Metadata metadata{{kFormat, "pt"}};
  for (const auto& entry : kTextEntries) {
    if (!(provenance.*entry.value).empty()) metadata[entry.key] = path_text(provenance.*entry.value);
  }
  metadata[kVersion] = version();
  if (!provenance.processing.empty()) {
    auto steps = Json::object();
    for (const auto& [step, outcome] : provenance.processing) steps[step] = outcome;
    metadata[kProcessing] = json_text(steps);
  }
  if (provenance.edits) metadata[kEdits] = json_text(*provenance.edits);
  if (!provenance.texts.empty()) metadata[kTexts] = json_text(provenance.texts);
  if (!provenance.tokens.empty()) metadata[kTokens] = json_text(provenance.tokens);
  if (!axes.empty()) {
    Json::object_t object;
    for (const auto& [name, names] : axes) object.emplace_back(name, names);
    metadata[kAxes] = json_text(object);
  }
  for (const auto& [key, value] : provenance.more) {
    if (is_taken(key)) {
      throw CheckpointError("provenance",
                            fmt::format("the key '{}' of `more` has a meaning of its own in files of "
                                        "activations; expected another key",
                                        printable(key)));
    }
    metadata[key] = value;
  }
  return metadata;
}

Provenance read_provenance(const SafetensorsFile& file) {
  const Record record(file);
  Provenance provenance;
  if (!record.is_ours()) {
    provenance.more = file.metadata();
    return provenance;
  }
  for (const auto& entry : kTextEntries) {
    const auto found = file.metadata().find(entry.key);
    if (found != file.metadata().end()) provenance.*entry.value = found->second;
  }
  record.read(kProcessing, "an object of texts", provenance.processing);
  record.read(kEdits, "a list of texts", provenance.edits);
  record.read(kTexts, "a list of texts", provenance.texts);
  record.read(kTokens, "a list of lists of ids", provenance.tokens);
  for (const auto& [key, value] : file.metadata()) {
    if (!is_taken(key)) provenance.more[key] = value;
  }
  return provenance;
}

TensorAxes read_axes(const SafetensorsFile& file) {
  const Record record(file);
  TensorAxes axes;
  record.read(kAxes, "an object of lists of names", axes);
  for (const auto& [name, names] : axes) {
    const auto* tensor = file.find(name);
    const auto got = [&name = name, &names = names](std::string_view what) {
      return fmt::format("{} axes for '{}', {}", names.size(), printable(name), what);
    };
    if (tensor == nullptr) record.refuse(kAxes, "tensors that are in the file", got("which is not there"));
    if (tensor->shape.size() != names.size()) {
      record.refuse(kAxes, "an axis for each dimension",
                    got(fmt::format("which has {} dimensions", tensor->shape.size())));
    }
  }
  return axes;
}

}  // namespace hooked
