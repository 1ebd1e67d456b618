#include "core/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "core/json.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

std::string shown(const Json& value) {
  const auto word = not_finite(value);
  return printable(word ? *word : value.dump());
}

std::string_view kind_of(const Json& value) {
  return not_finite(value) ? "a number that is not finite" : json_kind(value);
}

const Json* find_in(const Json& container, std::string_view key) {
  if (container.is_array()) {
    const auto place = parse_integer(key);
    const bool there = place && *place >= 0 && *place < static_cast<std::int64_t>(container.size());
    return there ? &container[static_cast<std::size_t>(*place)] : nullptr;
  }
  for (const auto& [name, value] : container.get_ref<const Json::object_t&>()) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string path_below(std::string_view path, std::string_view key) {
  return path.empty() ? printable(key) : fmt::format("{}.{}", path, printable(key));
}

}  // namespace

struct ConfigReader::Document {
  Json root;
  std::string where;
  MakeError error;
  std::unordered_set<const Json*> read;     // members of objects that a getter asked for
  std::unordered_set<const Json*> entered;  // objects that have a child reader

  void collect_unread(const Json& value, const std::string& path, std::vector<std::string>& keys) const {
    if (value.is_array()) return;  // a reader of an array reads all of it
    for (const auto& [name, member] : value.get_ref<const Json::object_t&>()) {
      const auto below = path_below(path, name);
      if (entered.contains(&member)) {
        collect_unread(member, below, keys);
      } else if (!read.contains(&member)) {
        keys.push_back(below);
      }
    }
  }

  [[noreturn]] void refuse(std::string_view path, std::string_view what) const {
    std::rethrow_exception(error(path.empty() ? where : fmt::format("{}: {}", where, path), what));
  }
};

// Where a value is in the file, and what it must be. The path is put together only for an error.
class ConfigReader::Place {
 public:
  Place(const ConfigReader& reader, std::string_view key) : reader_(reader), key_(key) {}

  std::string path() const {
    const auto& path = reader_.path_;
    const auto own =
        reader_.value_->is_array() ? fmt::format("{}[{}]", path, printable(key_)) : path_below(path, key_);
    return element_ ? fmt::format("{}[{}]", own, *element_) : own;
  }

  [[noreturn]] void refuse(std::string_view what) const { reader_.document_->refuse(path(), what); }

  [[noreturn]] void refuse_type(std::string_view expected, const Json& value) const {
    refuse(fmt::format("wrong type; expected {}, got {} ({})", expected, shown(value), kind_of(value)));
  }

  std::int64_t integer(const Json& value) const {
    if (!value.is_number_integer()) refuse_type("an integer", value);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
      refuse(fmt::format("out of range; expected at most {}, got {}", INT64_MAX, shown(value)));
    }
    return value.get<std::int64_t>();
  }

  std::uint64_t natural(const Json& value) const {
    if (!value.is_number_unsigned()) refuse_type("an integer of 0 or more", value);
    return value.get<std::uint64_t>();
  }

  double number(const Json& value) const {
    if (!value.is_number()) refuse_type("a number", value);
    return value.get<double>();
  }

  bool boolean(const Json& value) const {
    if (!value.is_boolean()) refuse_type("true or false", value);
    return value.get<bool>();
  }

  std::string text(const Json& value) const {
    if (!value.is_string()) refuse_type("a string", value);
    return value.get<std::string>();
  }

  const Json& object(const Json& value) const {
    if (!value.is_object()) refuse_type("an object", value);
    return value;
  }

  const Json& array(const Json& value) const {
    if (!value.is_array()) refuse_type("an array", value);
    return value;
  }

  // Every element of an array, each through the check for one.
  template <class Element>
  auto list(const Json& value, Element (Place::*convert)(const Json&) const) {
    std::vector<std::decay_t<Element>> list;
    list.reserve(array(value).size());
    for (const auto& element : value) {
      element_ = list.size();
      list.push_back((this->*convert)(element));
    }
    return list;
  }

 private:
  const ConfigReader& reader_;
  std::string_view key_;
  std::optional<std::size_t> element_;  // of the array at the key
};

ConfigReader::ConfigReader(std::string_view text, std::string_view where)
    : document_(std::make_shared<Document>()) {
  document_->where = printable(where);
  document_->error = make_error<ConfigError>;
  try {
    document_->root = parse_python_json(text, {});
  } catch (const std::invalid_argument& error) {
    document_->refuse("", error.what());
  }
  if (!document_->root.is_object()) {
    document_->refuse("", fmt::format("wrong type; expected a JSON object, got {}; is this a config file?",
                                      json_kind(document_->root)));
  }
  value_ = &document_->root;
  document_->entered.insert(value_);
}

ConfigReader::ConfigReader(Json document, std::string_view where, MakeError error)
    : document_(std::make_shared<Document>()) {
  document_->root = std::move(document);
  document_->where = printable(where);
  document_->error = error;
  if (!document_->root.is_object()) {
    document_->refuse("", fmt::format("wrong type; expected an object, got {}", json_kind(document_->root)));
  }
  value_ = &document_->root;
  document_->entered.insert(value_);
}

ConfigReader::ConfigReader(std::shared_ptr<Document> document, const Json& value, std::string path)
    : document_(std::move(document)), value_(&value), path_(std::move(path)) {}

ConfigReader::Place ConfigReader::place(std::string_view key) const { return {*this, key}; }

std::string ConfigReader::where(std::string_view key) const {
  return fmt::format("{}: {}", document_->where, place(key).path());
}

std::string ConfigReader::where() const {
  return path_.empty() ? document_->where : fmt::format("{}: {}", document_->where, path_);
}

const Json* ConfigReader::find(std::string_view key) const {
  const Json* value = find_in(*value_, key);
  if (value != nullptr && !value_->is_array()) document_->read.insert(value);
  return value;
}

const Json& ConfigReader::require(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) place(key).refuse("missing; expected this field, got nothing");
  if (value->is_null()) place(key).refuse("no value; expected this field to be set, got null");
  return *value;
}

bool ConfigReader::has(std::string_view key) const {
  const Json* value = find(key);
  return value != nullptr && !value->is_null();
}

bool ConfigReader::is_null(std::string_view key) const {
  const Json* value = find(key);
  return value != nullptr && value->is_null();
}

bool ConfigReader::is_unset(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return true;
  if (value->is_boolean()) return !value->get<bool>();
  if (value->is_number()) return value->get<double>() == 0.0;
  return value->is_null() || (value->is_structured() && value->empty());
}

bool ConfigReader::holds_object(std::string_view key) const {
  const Json* value = find_in(*value_, key);
  return value != nullptr && value->is_object();
}

bool ConfigReader::holds_list(std::string_view key) const {
  const Json* value = find_in(*value_, key);
  return value != nullptr && value->is_array();
}

bool ConfigReader::holds_text(std::string_view key) const {
  const Json* value = find_in(*value_, key);
  return value != nullptr && value->is_string();
}

std::size_t ConfigReader::size() const { return value_->size(); }

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> keys;
  if (value_->is_array()) {
    for (std::size_t i = 0; i < size(); ++i) keys.push_back(std::to_string(i));
    return keys;
  }
  for (const auto& [name, value] : value_->get_ref<const Json::object_t&>()) keys.push_back(name);
  return keys;
}

std::int64_t ConfigReader::integer(std::string_view key) const { return place(key).integer(require(key)); }
std::int64_t ConfigReader::integer_or(std::string_view key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}
std::int64_t ConfigReader::count(std::string_view key, std::int64_t most) const {
  const auto value = integer(key);
  if (value < 0 || value > most) refuse(key, fmt::format("is out of range; expected 0 to {}", most));
  return value;
}
std::uint64_t ConfigReader::natural(std::string_view key) const { return place(key).natural(require(key)); }

double ConfigReader::number(std::string_view key) const { return place(key).number(require(key)); }
double ConfigReader::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}
bool ConfigReader::boolean(std::string_view key) const { return place(key).boolean(require(key)); }
bool ConfigReader::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}
std::string ConfigReader::text(std::string_view key) const { return place(key).text(require(key)); }
std::string ConfigReader::text_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? text(key) : std::string(fallback);
}
std::vector<std::string> ConfigReader::texts(std::string_view key) const {
  return place(key).list(require(key), &Place::text);
}
std::vector<std::int64_t> ConfigReader::integers(std::string_view key) const {
  return place(key).list(require(key), &Place::integer);
}
std::vector<double> ConfigReader::numbers(std::string_view key) const {
  return place(key).list(require(key), &Place::number);
}
std::vector<bool> ConfigReader::booleans(std::string_view key) const {
  return place(key).list(require(key), &Place::boolean);
}

std::vector<std::pair<std::string_view, std::int64_t>> ConfigReader::named_integers(
    std::string_view key) const {
  const ConfigReader inner = object(key);
  const auto& members = inner.value_->get_ref<const Json::object_t&>();
  std::vector<std::pair<std::string_view, std::int64_t>> named;
  named.reserve(members.size());
  for (const auto& [name, value] : members) named.emplace_back(name, inner.place(name).integer(value));
  return named;
}

std::size_t ConfigReader::choice(std::string_view key, std::span<const std::string_view> names) const {
  const auto found = std::find(names.begin(), names.end(), text(key));
  if (found == names.end())
    refuse(key, fmt::format("is not supported; expected {}", fmt::join(names, " or ")));
  return static_cast<std::size_t>(found - names.begin());
}

ConfigReader ConfigReader::object(std::string_view key) const {
  const Json& value = place(key).object(require(key));
  if (!value_->is_array()) document_->entered.insert(&value);
  return {document_, value, place(key).path()};
}

std::optional<ConfigReader> ConfigReader::object_if(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return object(key);
}

ConfigReader ConfigReader::array(std::string_view key) const {
  const Json& value = place(key).array(require(key));
  if (!value_->is_array()) document_->entered.insert(&value);
  return {document_, value, place(key).path()};
}

std::vector<ConfigReader> ConfigReader::objects(std::string_view key) const {
  const ConfigReader list = array(key);
  std::vector<ConfigReader> readers;
  readers.reserve(list.size());
  for (const auto& element : list.keys()) readers.push_back(list.object(element));
  return readers;
}

std::string_view ConfigReader::first_of(std::initializer_list<std::string_view> keys) const {
  for (const auto key : keys) {
    const Json* value = find_in(*value_, key);
    if (value != nullptr && !value->is_null()) return key;
  }
  return keys.size() == 0 ? std::string_view() : *keys.begin();
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) const {
  for (const auto key : keys) find(key);
}

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> keys;
  document_->collect_unread(*value_, "", keys);
  return keys;
}

void ConfigReader::refuse_unread() const {
  std::vector<std::string> keys;
  document_->collect_unread(*value_, path_, keys);
  if (keys.empty()) return;
  const auto more = keys.size() > 1 ? fmt::format(" (and {} more)", keys.size() - 1) : std::string();
  document_->refuse(keys.front(), fmt::format("unknown field{}; expected only fields this engine honours, "
                                              "because those of this group change what the model computes",
                                              more));
}

void ConfigReader::refuse(std::string_view key, std::string_view what) const {
  const Json* value = find(key);
  place(key).refuse(
      fmt::format("{} {}", value == nullptr ? std::string("an absent value") : shown(*value), what));
}

}  // namespace hooked
