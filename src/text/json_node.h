#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace hooked {

/// A value of a JSON file that knows where it stands, for errors. The file's document must outlive it.
///
/// A member that an object does not have is a null node: every getter says that it is missing.
class JsonNode {
 public:
  /// The whole of `document`, which was read from `file`.
  JsonNode(const Json& document, std::string file) : JsonNode(document, std::move(file), "") {}

  const Json& json() const noexcept { return *value_; }
  bool is_null() const noexcept { return value_->is_null(); }

  /// Throws TokenizerError about this value.
  [[noreturn]] void refuse(std::string_view what) const;

  JsonNode member(std::string_view key) const;

  /// The items of an array. Throws TokenizerError for anything else, as all below.
  std::vector<JsonNode> items() const;

  /// The item at `i` of what is known to be an array.
  JsonNode item(std::size_t i) const;

  /// Calls `visit(key, node)` for each member of an object in the file's order.
  template <class Visit>
  void for_each_member(Visit&& visit) const {
    require_object();
    for (const auto& [key, value] : value_->get_ref<const Json::object_t&>())
      visit(key, at(value, printable(key)));
  }

  /// Calls `visit(key)` for each key of an object.
  template <class Visit>
  void for_each_key(Visit&& visit) const {
    require_object();
    for (const auto& [key, value] : value_->get_ref<const Json::object_t&>()) visit(std::string_view(key));
  }

  void require_object() const;
  void require_array() const;

  const std::string& text() const;
  std::int64_t integer() const;
  double number() const;
  bool boolean() const;

  /// The value, or `fallback` where it is absent or null.
  bool boolean_or(bool fallback) const;
  std::string text_or(std::string_view fallback) const;

  /// A string that is one character.
  char32_t character() const;

  /// An integer of 0 to `most`.
  std::size_t count(std::size_t most) const;

  /// The object's `type`, which must be one of `supported`.
  const std::string& type(std::span<const std::string_view> supported) const;

  /// This string, which must be one of `choices`: which one, counted from 0.
  std::size_t choice(std::span<const std::string_view> choices) const;

 private:
  JsonNode(const Json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  [[noreturn]] void refuse_type(std::string_view wanted) const;
  JsonNode at(const Json& value, std::string_view key) const;

  const Json* value_;
  std::string file_;
  std::string path_;
};

/// Parses a JSON file of at most `limit` bytes. Throws TokenizerError and IoError.
Json parse_json_file(const std::filesystem::path& file, std::uint64_t limit);

}  // namespace hooked
