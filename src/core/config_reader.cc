#include "hooked/core/config_reader.h"

#include <fmt/format.h>

#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/parse_integer.h"

namespace hooked {
namespace {

const Json& as_json(const void* value) { return *static_cast<const Json*>(value); }

std::string shown(const Json& value) { return printable(value.dump()); }

const Json* find_in(const Json& object, std::string_view key) {
  if (object.is_array()) {
    const auto place = parse_integer(key);
    const bool there = place && *place >= 0 && *place < static_cast<std::int64_t>(object.size());
    return there ? &object[static_cast<std::size_t>(*place)] : nullptr;
  }
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string path_below(std::string_view path, std::string_view key) {
  return path.empty() ? printable(key) : fmt::format("{}.{}", path, printable(key));
}

[[noreturn]] void refuse_type(std::string_view where, std::string_view expected, const Json& value) {
  throw ConfigError(
      where, fmt::format("wrong type; expected {}, got {} ({})", expected, shown(value), json_kind(value)));
}

std::int64_t to_integer(const Json& value, std::string_view where) {
  if (!value.is_number_integer()) refuse_type(where, "an integer", value);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    throw ConfigError(where,
                      fmt::format("out of range; expected at most {}, got {}", INT64_MAX, shown(value)));
  }
  return value.get<std::int64_t>();
}

double to_number(const Json& value, std::string_view where) {
  if (!value.is_number()) refuse_type(where, "a number", value);
  return value.get<double>();
}

bool to_boolean(const Json& value, std::string_view where) {
  if (!value.is_boolean()) refuse_type(where, "true or false", value);
  return value.get<bool>();
}

std::string to_text(const Json& value, std::string_view where) {
  if (!value.is_string()) refuse_type(where, "a string", value);
  return value.get<std::string>();
}

// Every element of the array `value` through the conversion of one.
template <class Convert>
auto to_list(const Json& value, std::string_view where, Convert convert) {
  if (!value.is_array()) refuse_type(where, "an array", value);
  std::vector<decltype(convert(value, where))> list;
  list.reserve(value.size());
  for (const auto& element : value)
    list.push_back(convert(element, fmt::format("{}[{}]", where, list.size())));
  return list;
}

}  // namespace

struct ConfigReader::Document {
  Json root;
  std::string where;
  std::unordered_set<const void*> read;     // values that somebody asked for
  std::unordered_set<const void*> entered;  // objects that a child reader was made for
};

ConfigReader::ConfigReader(std::string_view text, std::string_view where)
    : document_(std::make_shared<Document>()) {
  document_->where = printable(where);
  try {
    document_->root = parse_json(text, {});
  } catch (const std::invalid_argument& error) {
    throw ConfigError(document_->where, error.what());
  }
  if (!document_->root.is_object()) {
    throw ConfigError(document_->where,
                      fmt::format("wrong type; expected a JSON object, got {}; is this a config file?",
                                  json_kind(document_->root)));
  }
  object_ = &document_->root;
  document_->entered.insert(object_);
}

ConfigReader::ConfigReader(std::shared_ptr<Document> document, const void* object, std::string path)
    : document_(std::move(document)), object_(object), path_(std::move(path)) {
  document_->entered.insert(object_);
}

std::string ConfigReader::where(std::string_view key) const {
  return fmt::format("{}: {}", document_->where, path_below(path_, key));
}

const void* ConfigReader::find(std::string_view key) const {
  const Json* value = find_in(as_json(object_), key);
  if (value != nullptr) document_->read.insert(value);
  return value;
}

const void* ConfigReader::require(std::string_view key) const {
  const void* value = find(key);
  if (value == nullptr) throw ConfigError(where(key), "missing; expected this field, got nothing");
  if (as_json(value).is_null())
    throw ConfigError(where(key), "no value; expected this field to be set, got null");
  return value;
}

bool ConfigReader::has(std::string_view key) const {
  const void* value = find(key);
  return value != nullptr && !as_json(value).is_null();
}

bool ConfigReader::is_null(std::string_view key) const {
  const void* value = find(key);
  return value != nullptr && as_json(value).is_null();
}

bool ConfigReader::is_unset(std::string_view key) const {
  const void* value = find(key);
  if (value == nullptr) return true;
  const Json& json = as_json(value);
  if (json.is_boolean()) return !json.get<bool>();
  if (json.is_number()) return json.get<double>() == 0.0;
  return json.is_null() || (json.is_structured() && json.empty());
}

bool ConfigReader::holds_object(std::string_view key) const {
  const Json* value = find_in(as_json(object_), key);
  return value != nullptr && value->is_object();
}

bool ConfigReader::holds_list(std::string_view key) const {
  const Json* value = find_in(as_json(object_), key);
  return value != nullptr && value->is_array();
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> keys;
  if (as_json(object_).is_array()) {
    for (std::size_t i = 0; i < as_json(object_).size(); ++i) keys.push_back(std::to_string(i));
    return keys;
  }
  for (const auto& [name, value] : as_json(object_).get_ref<const Json::object_t&>()) keys.push_back(name);
  return keys;
}

std::int64_t ConfigReader::integer(std::string_view key) const {
  return to_integer(as_json(require(key)), where(key));
}
std::int64_t ConfigReader::integer_or(std::string_view key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}
double ConfigReader::number(std::string_view key) const {
  return to_number(as_json(require(key)), where(key));
}
double ConfigReader::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}
bool ConfigReader::boolean(std::string_view key) const {
  return to_boolean(as_json(require(key)), where(key));
}
bool ConfigReader::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}
std::string ConfigReader::text(std::string_view key) const {
  return to_text(as_json(require(key)), where(key));
}
std::string ConfigReader::text_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? text(key) : std::string(fallback);
}
std::vector<std::string> ConfigReader::texts(std::string_view key) const {
  return to_list(as_json(require(key)), where(key), to_text);
}
std::vector<std::int64_t> ConfigReader::integers(std::string_view key) const {
  return to_list(as_json(require(key)), where(key), to_integer);
}
std::vector<double> ConfigReader::numbers(std::string_view key) const {
  return to_list(as_json(require(key)), where(key), to_number);
}
std::vector<bool> ConfigReader::booleans(std::string_view key) const {
  return to_list(as_json(require(key)), where(key), to_boolean);
}

ConfigReader ConfigReader::object(std::string_view key) const {
  const void* value = require(key);
  if (!as_json(value).is_object()) refuse_type(where(key), "an object", as_json(value));
  return {document_, value, path_below(path_, key)};
}

ConfigReader ConfigReader::array(std::string_view key) const {
  const void* value = require(key);
  if (!as_json(value).is_array()) refuse_type(where(key), "an array", as_json(value));
  return {document_, value, path_below(path_, key)};
}

std::optional<ConfigReader> ConfigReader::object_if(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return object(key);
}

std::string_view ConfigReader::first_of(std::initializer_list<std::string_view> keys) const {
  for (const auto key : keys) {
    const Json* value = find_in(as_json(object_), key);
    if (value != nullptr && !value->is_null()) return key;
  }
  return keys.size() == 0 ? std::string_view() : *keys.begin();
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) const {
  for (const auto key : keys) find(key);
}

void ConfigReader::collect_unread(const void* object, const std::string& path,
                                  std::vector<std::string>& keys) const {
  if (as_json(object).is_array()) return;  // whoever enters an array reads all of it
  for (const auto& [name, value] : as_json(object).get_ref<const Json::object_t&>()) {
    const auto below = path_below(path, name);
    if (document_->entered.contains(&value)) {
      collect_unread(&value, below, keys);
    } else if (!document_->read.contains(&value)) {
      keys.push_back(below);
    }
  }
}

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> keys;
  collect_unread(&document_->root, "", keys);
  return keys;
}

void ConfigReader::refuse_unread() const {
  std::vector<std::string> keys;
  collect_unread(object_, path_, keys);
  if (keys.empty()) return;
  const auto more = keys.size() > 1 ? fmt::format(" (and {} more)", keys.size() - 1) : std::string();
  throw ConfigError(
      fmt::format("{}: {}", document_->where, keys.front()),
      fmt::format("unknown field{}; expected only fields this engine honours, because those of this "
                  "group change what the model computes",
                  more));
}

void ConfigReader::refuse(std::string_view key, std::string_view what) const {
  const void* value = find(key);
  throw ConfigError(
      where(key),
      fmt::format("{} {}", value == nullptr ? std::string("an absent value") : shown(as_json(value)), what));
}

}  // namespace hooked
