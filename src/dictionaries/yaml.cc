#include "dictionaries/yaml.h"

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/parse_integer.h"
#include "core/utf8.h"

namespace hooked {
namespace {

constexpr std::size_t kLines = 20'000;

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

class FlatYaml {
 public:
  explicit FlatYaml(std::string_view text) : rest_(text) {}

  Json read() {
    Json result = Json::object();
    std::string list;  // the key whose items follow
    while (!rest_.empty()) {
      const std::string_view whole = next_line();
      const std::string_view line = without_comment(whole);
      if (trimmed(line).empty() || (result.empty() && trimmed(line) == "---")) continue;
      const std::string_view content = trimmed(line);
      if (content == "-" || content.starts_with("- ")) {
        if (list.empty()) fail("an item belongs to no key");
        if (result.at(list).is_null()) result[list] = Json::array();
        result[list].push_back(scalar(trimmed(content.substr(1))));
        continue;
      }
      if (line.front() == ' ' || line.front() == '\t') fail("a mapping inside another is not read");
      const auto colon = key_end(content);
      const std::string key(trimmed(content.substr(0, colon)));
      const std::string name = quoted(key) ? unquoted(key) : key;
      if (name.empty()) fail("a key is empty");
      if (result.contains(name)) fail(fmt::format("the key '{}' is there twice", printable(name)));
      const std::string_view value = trimmed(content.substr(colon + 1));
      list = value.empty() ? name : std::string();
      result[name] = value.empty() ? Json(nullptr) : value.front() == '[' ? flow_list(value) : scalar(value);
    }
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw std::invalid_argument(
        fmt::format("line {}: {}; expected lines `key: value` or `- item`", line_, what));
  }

  std::string_view next_line() {
    if (++line_ > kLines) fail("there are too many lines");
    const auto end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    return line;
  }

  /// Where the key of a line ends: the first colon outside quotes that a blank follows, or that ends the
  /// line.
  std::size_t key_end(std::string_view line) const {
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (quote != 0) {
        if (line[i] == quote) quote = 0;
      } else if (i == 0 && (line[i] == '"' || line[i] == '\'')) {
        quote = line[i];
      } else if (line[i] == ':' && (i + 1 == line.size() || line[i + 1] == ' ')) {
        return i;
      }
    }
    fail("there is no key");
  }

  static std::string_view without_comment(std::string_view line) {
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (quote != 0) {
        if (line[i] == quote) quote = 0;
      } else if (line[i] == '"' || line[i] == '\'') {
        quote = line[i];
      } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
        return line.substr(0, i);
      }
    }
    return line;
  }

  static bool quoted(std::string_view text) { return text.starts_with('"') || text.starts_with('\''); }

  std::string unquoted(std::string_view text) const {
    const char quote = text.front();
    if (text.size() < 2 || text.back() != quote) fail("a quotation does not end");
    const std::string_view inner = text.substr(1, text.size() - 2);
    if (inner.find(quote) != std::string_view::npos ||
        (quote == '"' && inner.find('\\') != std::string_view::npos))
      fail("a quotation with a quote or backslash in it is not read");
    return std::string(inner);
  }

  Json scalar(std::string_view text) const {
    if (text.empty() || text == "~" || text == "null") return nullptr;
    if (quoted(text)) return unquoted(text);
    if (std::string_view("&*!|>%@`{}[]?").find(text.front()) != std::string_view::npos)
      fail(fmt::format("a value that begins with '{}' is not read", text.front()));
    if (text.find(": ") != std::string_view::npos || text.ends_with(':'))
      fail("a mapping inside another is not read");
    if (text == "true" || text == "false") return text == "true";
    if (const auto number = parse_integer(text)) return *number;
    return std::string(text);
  }

  Json flow_list(std::string_view text) const {
    if (text.back() != ']') fail("a list does not end on its line");
    Json list = Json::array();
    std::string_view rest = trimmed(text.substr(1, text.size() - 2));
    while (!rest.empty()) {
      const bool quotes = quoted(rest);
      const auto closing = quotes ? rest.find(rest.front(), 1) : 0;
      if (closing == std::string_view::npos) fail("a quotation does not end");
      const auto comma = rest.find(',', closing);
      list.push_back(scalar(trimmed(rest.substr(0, comma))));
      rest = comma == std::string_view::npos ? std::string_view() : trimmed(rest.substr(comma + 1));
    }
    return list;
  }

  std::string_view rest_;
  std::size_t line_ = 0;
};

}  // namespace

Json parse_flat_yaml(std::string_view text) {
  if (const auto at = first_invalid_byte(text))
    throw std::invalid_argument(fmt::format("byte {} is not UTF-8", *at));
  return FlatYaml(text).read();
}

}  // namespace hooked
