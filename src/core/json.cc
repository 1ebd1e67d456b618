#include "core/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

namespace hooked {
namespace {

constexpr std::size_t kPrintedBytes = 160;

// Walks over the text and says how far the parser has read: its callbacks do not get a position.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const auto before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// nlohmann's sentence without its class, number and position, which we state ourselves.
std::string parser_reason(std::string_view what) {
  const auto skip_past = [&](std::string_view marker) {
    const auto at = what.find(marker);
    if (at != std::string_view::npos) what.remove_prefix(at + marker.size());
  };
  skip_past("] ");
  if (what.starts_with("parse error at")) skip_past(": ");
  return printable(what);
}

// Builds the tree inside the parser's own loop, so depth and keys are checked before anything is allocated
// for them.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const JsonLimits& limits)
      : text_(text), furthest_(text.data()), limits_(limits) {}

  CountingIterator begin() { return {text_.data(), &furthest_}; }
  CountingIterator end() { return {text_.data() + text_.size(), &furthest_}; }
  const std::string& reason() const { return reason_; }
  Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // no such thing in JSON text

  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() {
    if (keys_may_repeat()) {
      open_.pop_back();
      return true;
    }
    const auto& object = open_.back()->get_ref<const Json::object_t&>();
    std::vector<std::string_view> keys;
    keys.reserve(object.size());
    for (const auto& [name, value] : object) keys.push_back(name);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) {
      return refuse(
          fmt::format("the object that ends at byte {} has the key \"{}\" twice; expected every key once",
                      consumed() - 1, printable(*twice)));
    }
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    return refuse(fmt::format("not valid JSON at byte {}: {}", position > 0 ? position - 1 : 0,
                              parser_reason(error.what())));
  }

 private:
  std::size_t consumed() const { return static_cast<std::size_t>(furthest_ - text_.data()); }

  // Whether the innermost open object is the one at `repeating`: what is open stands last in its parent.
  bool keys_may_repeat() const {
    if (!limits_.repeating || limits_.repeating->size() + 1 != open_.size()) return false;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (!open_[i]->is_object()) return false;
      if (open_[i]->get_ref<const Json::object_t&>().back().first != (*limits_.repeating)[i]) return false;
    }
    return true;
  }

  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  // A plain append: the map's own emplace searches for the key each time, which is quadratic.
  Json* append(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& array = open_.back()->get_ref<Json::array_t&>();
      return &array.emplace_back(std::move(value));
    }
    Json::object_t::Container& entries = open_.back()->get_ref<Json::object_t&>();
    return &entries.emplace_back(std::move(key_), std::move(value)).second;
  }

  bool add(Json value) {
    append(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() == limits_.depth) {
      return refuse(fmt::format("nested too deep at byte {}; expected at most {} levels", consumed() - 1,
                                limits_.depth));
    }
    open_.push_back(append(std::move(container)));
    return true;
  }

  std::string_view text_;
  const char* furthest_;
  const JsonLimits& limits_;
  Json root_;
  std::string key_;
  // Containers still open. Only the innermost one grows, so pointers to the outer ones stay valid.
  std::vector<Json*> open_;
  std::string reason_;
};

// Length in bytes of the valid UTF-8 sequence that `text` begins with, or 0 (RFC 3629, table 3-7 of Unicode).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;   // overlong
  if (lead == 0xED) high = 0x9F;  // surrogates
  if (lead == 0xF0) low = 0x90;   // overlong
  if (lead == 0xF4) high = 0x8F;  // past U+10FFFF
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) < low || byte(i) > high) return 0;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw std::invalid_argument(
        fmt::format("the JSON text is {} bytes long; expected at most {}", text.size(), limits.bytes));
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    throw std::invalid_argument(
        "begins with a byte order mark at byte 0; expected plain UTF-8 JSON without one");
  }
  // The parser would take a NUL for the end of the input and ignore the rest.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    throw std::invalid_argument(fmt::format("has a NUL character at byte {}; expected JSON text", nul));
  }
  TreeBuilder builder(text, limits);
  if (!Json::sax_parse(builder.begin(), builder.end(), &builder))
    throw std::invalid_argument(builder.reason());
  return builder.take();
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
    const auto length = utf8_length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1_control = length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (length == 0 || (length == 1 && (byte < 0x20 || byte == 0x7F)) || c1_control) {
      const auto escaped = std::max<std::size_t>(length, 1);
      for (std::size_t j = i; j < i + escaped; ++j) {
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[j]));
      }
      i += escaped;
    } else {
      shown += text.substr(i, length);
      i += length;
    }
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
