#include "core/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "core/json_cursor.h"
#include "core/utf8.h"

namespace hooked {
namespace {

constexpr std::size_t kPrintedBytes = 160;

constexpr std::string_view kNotJson = "not valid JSON";

// What Python writes for numbers that are not finite, for which JSON has no words.
constexpr const char* kPythonWords[] = {"NaN", "Infinity", "-Infinity"};

enum class Dialect : std::uint8_t { json, python };

class TreeReader {
 public:
  TreeReader(std::string_view text, const JsonLimits& limits, Dialect dialect)
      : cursor_(text), limits_(limits), dialect_(dialect) {}

  Json read() {
    Json root = value(0, limits_.repeating ? Path(*limits_.repeating) : Path());
    cursor_.finish(kNotJson);
    return root;
  }

 private:
  /// The rest of JsonLimits::repeating, from the current value on; nothing if that path leads elsewhere.
  using Path = std::optional<std::span<const std::string_view>>;

  /// A value nested in `depth` arrays and objects.
  Json value(std::size_t depth, Path path) {
    const char next = cursor_.peek();
    if (next == '{') return object(depth, path);
    if (next == '[') return array(depth);
    if (next == '"') return cursor_.string(kNotJson, std::string_view::npos);
    if (dialect_ == Dialect::python) {
      for (const char* word : kPythonWords) {
        if (cursor_.consume_word(word)) return Json{{kNotFiniteKey, word}};
      }
    }
    if (next == '-' || (next >= '0' && next <= '9')) {
      return std::visit([](auto number) { return Json(number); }, cursor_.number(kNotJson));
    }
    if (cursor_.consume_word("true")) return true;
    if (cursor_.consume_word("false")) return false;
    if (cursor_.consume_word("null")) return nullptr;
    cursor_.fail(kNotJson, "a value");
  }

  Json array(std::size_t depth) {
    check_depth(depth);
    cursor_.expect('[', kNotJson);
    Json::array_t values;
    if (cursor_.consume(']')) return values;
    do {
      values.push_back(value(depth + 1, {}));
    } while (cursor_.consume(','));
    if (!cursor_.consume(']')) cursor_.fail(kNotJson, "',' or ']'");
    return values;
  }

  Json object(std::size_t depth, Path path) {
    check_depth(depth);
    cursor_.expect('{', kNotJson);
    Json::object_t object;
    // A plain append: the map's own emplace searches for the key each time, which is quadratic.
    Json::object_t::Container& members = object;
    if (cursor_.consume('}')) return object;
    do {
      auto key = cursor_.string(kNotJson, std::string_view::npos);
      cursor_.expect(':', kNotJson);
      const bool leads_on = path && !path->empty() && path->front() == key;
      auto member = value(depth + 1, leads_on ? Path(path->subspan(1)) : Path());
      members.emplace_back(std::move(key), std::move(member));
    } while (cursor_.consume(','));
    const auto end = cursor_.position();
    if (!cursor_.consume('}')) cursor_.fail(kNotJson, "',' or '}'");
    const bool keys_may_repeat = path && path->empty();
    if (!keys_may_repeat) check_keys(members, end);
    return object;
  }

  void check_depth(std::size_t depth) {
    if (depth < limits_.depth) return;
    throw std::invalid_argument(fmt::format("nested too deep at byte {}; expected at most {} levels",
                                            cursor_.position(), limits_.depth));
  }

  static void check_keys(const Json::object_t::Container& members, std::uint64_t end) {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, value] : members) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return;
    throw std::invalid_argument(
        fmt::format("the object that ends at byte {} has the key \"{}\" twice; expected every key once", end,
                    printable(*twice)));
  }

  JsonCursor cursor_;
  const JsonLimits& limits_;
  const Dialect dialect_;
};

Json parse(std::string_view text, const JsonLimits& limits, Dialect dialect) {
  if (text.size() > limits.bytes) {
    throw std::invalid_argument(
        fmt::format("the JSON text is {} bytes long; expected at most {}", text.size(), limits.bytes));
  }
  return TreeReader(text, limits, dialect).read();
}

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) {
  return parse(text, limits, Dialect::json);
}

Json parse_python_json(std::string_view text, const JsonLimits& limits) {
  return parse(text, limits, Dialect::python);
}

std::optional<std::string> not_finite(const Json& value) {
  if (!value.is_object() || value.size() != 1) return std::nullopt;
  const auto word = value.find(kNotFiniteKey);
  if (word == value.end() || !word->is_string()) return std::nullopt;
  return word->get<std::string>();
}

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    if (shown.size() >= kPrintedBytes) {
      return shown + fmt::format("... ({} bytes)", text.size());
    }
    i += append_shown(shown, text.substr(i));
  }
  return shown;
}

std::string_view json_kind(const Json& value) noexcept {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number with a fraction or exponent";
    default:
      return "something that is not JSON";
  }
}

}  // namespace hooked
