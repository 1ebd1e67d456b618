#include "text/json_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "text/unicode.h"

namespace hooked {

void JsonNode::refuse(std::string_view what) const {
  throw TokenizerError(path_.empty() ? file_ : fmt::format("{}: {}", file_, path_), what);
}

void JsonNode::refuse_type(std::string_view wanted) const {
  refuse(is_null() ? fmt::format("is missing; expected {}", wanted)
                   : fmt::format("is {}; expected {}", json_kind(*value_), wanted));
}

JsonNode JsonNode::at(const Json& value, std::string_view key) const {
  return {value, file_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

JsonNode JsonNode::member(std::string_view key) const {
  static const Json absent;
  if (!value_->is_object()) return at(absent, key);
  const auto found = value_->find(std::string(key));
  return at(found == value_->end() ? absent : *found, key);
}

JsonNode JsonNode::item(std::size_t i) const {
  return {(*value_)[i], file_, fmt::format("{}[{}]", path_, i)};
}

std::vector<JsonNode> JsonNode::items() const {
  require_array();
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) nodes.push_back(item(i));
  return nodes;
}

void JsonNode::require_object() const {
  if (!value_->is_object()) refuse_type("an object");
}

void JsonNode::require_array() const {
  if (!value_->is_array()) refuse_type("an array");
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) refuse_type("a string");
  return value_->get_ref<const std::string&>();
}

std::int64_t JsonNode::integer() const {
  if (!value_->is_number_integer()) refuse_type("an integer");
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    refuse(fmt::format("is {}; expected an integer below 2^63", value_->get<std::uint64_t>()));
  }
  return value_->get<std::int64_t>();
}

double JsonNode::number() const {
  if (!value_->is_number()) refuse_type("a number");
  return value_->get<double>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) refuse_type("true or false");
  return value_->get<bool>();
}

bool JsonNode::boolean_or(bool fallback) const { return is_null() ? fallback : boolean(); }

std::string JsonNode::text_or(std::string_view fallback) const {
  return is_null() ? std::string(fallback) : text();
}

char32_t JsonNode::character() const {
  const auto& value = text();
  if (count_characters(value) != 1) {
    refuse(fmt::format("is \"{}\"; expected one character", printable(value)));
  }
  return first_char(value)->code_point;
}

std::size_t JsonNode::count(std::size_t most) const {
  const auto value = integer();
  if (value < 0 || static_cast<std::uint64_t>(value) > most) {
    refuse(fmt::format("is {}; expected 0 to {}", value, most));
  }
  return static_cast<std::size_t>(value);
}

const std::string& JsonNode::type(std::span<const std::string_view> supported) const {
  require_object();
  const auto type = member("type");
  type.choice(supported);
  return type.text();
}

std::size_t JsonNode::choice(std::span<const std::string_view> choices) const {
  const auto found = std::find(choices.begin(), choices.end(), text());
  if (found == choices.end()) {
    refuse(fmt::format("is \"{}\", which is not supported; expected {}", printable(text()),
                       fmt::join(choices, " or ")));
  }
  return static_cast<std::size_t>(found - choices.begin());
}

Json parse_json_file(const std::filesystem::path& file, std::uint64_t limit) {
  try {
    return parse_json(read_text_file(file, limit), {.bytes = limit});
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(printable(file.native()), reason.what());
  } catch (const CheckpointError& too_large) {
    throw TokenizerError(printable(file.native()), too_large.what());
  }
}

}  // namespace hooked
