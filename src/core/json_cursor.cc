#include "core/json_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "core/json.h"
#include "core/text_lines.h"
#include "core/utf8.h"

namespace hooked {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

JsonCursor::JsonCursor(std::string_view text, std::uint64_t first_byte)
    : text_(text), first_byte_(first_byte) {
  if (text.starts_with(kByteOrderMark)) {
    throw std::invalid_argument(
        fmt::format("begins at byte {} with a byte order mark; expected plain JSON without one", first_byte));
  }
  if (const auto bad = first_invalid_byte(text)) {
    throw std::invalid_argument(fmt::format("ill-formed UTF-8 at byte {}; expected UTF-8, got byte 0x{:02x}",
                                            first_byte + *bad, static_cast<unsigned char>(text[*bad])));
  }
}

void JsonCursor::skip_blanks() noexcept {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
}

std::uint64_t JsonCursor::position() {
  skip_blanks();
  return first_byte_ + at_;
}

std::string_view JsonCursor::literal_here() const noexcept {
  auto end = at_;
  while (end < text_.size() && !is_blank(text_[end]) && std::strchr(",:{}[]\"", text_[end]) == nullptr) ++end;
  return text_.substr(at_, end - at_);
}

void JsonCursor::fail(std::string_view what, std::string_view wanted) {
  std::string got = "the end of the text";
  if (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      got = "a string";
    } else if (c == '{') {
      got = "an object";
    } else if (c == '[') {
      got = "an array";
    } else {
      const auto literal = literal_here();
      got = fmt::format("'{}'", printable(literal.empty() ? text_.substr(at_, 1) : literal.substr(0, 48)));
    }
  }
  throw std::invalid_argument(
      fmt::format("{} at byte {}; expected {}, got {}", what, first_byte_ + at_, wanted, got));
}

bool JsonCursor::consume(char token) {
  skip_blanks();
  if (at_ == text_.size() || text_[at_] != token) return false;
  ++at_;
  return true;
}

bool JsonCursor::consume_word(std::string_view word) {
  skip_blanks();
  if (literal_here() != word) return false;
  at_ += word.size();
  return true;
}

char JsonCursor::peek() {
  skip_blanks();
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonCursor::expect(char token, std::string_view what) {
  if (!consume(token)) fail(what, fmt::format("'{}'", token));
}

void JsonCursor::finish(std::string_view what) {
  skip_blanks();
  if (at_ != text_.size()) fail(what, "nothing more");
}

std::uint32_t JsonCursor::escaped_unit(std::string_view what) {
  const auto digits = text_.substr(at_, 4);
  std::uint32_t unit = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16).ptr;
  const auto count = static_cast<std::size_t>(end - digits.data());
  at_ += count;
  if (count < 4) fail(what, "four hexadecimal digits after \\u");
  return unit;
}

std::string JsonCursor::string(std::string_view what, std::size_t limit) {
  skip_blanks();
  if (at_ == text_.size() || text_[at_] != '"') fail(what, "a string");
  const auto start = at_++;
  std::string value;
  while (true) {
    const auto run = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    if (value.size() + (at_ - run) > limit) {
      throw std::invalid_argument(
          fmt::format("{} at byte {} is too long; expected at most {} bytes, got more", what,
                      first_byte_ + start, limit));
    }
    value.append(text_, run, at_ - run);
    if (at_ == text_.size()) fail(what, "a closing '\"'");
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return value;
    }
    if (c != '\\') fail(what, "no control character inside a string");
    const auto escape = at_++;
    const char kind = at_ < text_.size() ? text_[at_] : '\0';
    if (kind == 'u') {
      ++at_;
      auto point = escaped_unit(what);
      if (point >= 0xD800 && point < 0xDC00 && text_.substr(at_, 2) == "\\u") {
        at_ += 2;
        const auto low = escaped_unit(what);
        point = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00) : 0xD800;
      }
      if (point >= 0xD800 && point < 0xE000) {
        throw std::invalid_argument(fmt::format(
            "{} at byte {}; expected a character, got half a surrogate pair", what, first_byte_ + escape));
      }
      append_utf8(value, point);
      continue;
    }
    constexpr std::string_view kKinds = "\"\\/bfnrt";
    const auto index = kind == '\0' ? std::string_view::npos : kKinds.find(kind);
    if (index == std::string_view::npos) fail(what, "one of \" \\ / b f n r t u after a backslash");
    value.push_back("\"\\/\b\f\n\r\t"[index]);
    ++at_;
  }
}

std::int64_t JsonCursor::size(std::string_view what) {
  skip_blanks();
  const auto literal = literal_here();
  const bool leading_zero = literal.size() > 1 && literal.front() == '0';
  if (literal.empty() || leading_zero || !std::all_of(literal.begin(), literal.end(), is_digit)) {
    fail(what, "a whole number from 0 on");
  }
  std::int64_t value = 0;
  if (std::from_chars(literal.data(), literal.data() + literal.size(), value).ec != std::errc()) {
    fail(what, "a number below 2^63 (overflow)");
  }
  at_ += literal.size();
  return value;
}

void JsonCursor::skip_digits(std::string_view what) {
  const auto begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  if (at_ == begin) fail(what, "a digit");
}

std::variant<std::int64_t, std::uint64_t, double> JsonCursor::number(std::string_view what) {
  skip_blanks();
  const auto begin = at_;
  const auto pass = [&](std::string_view tokens) {
    const bool here = at_ < text_.size() && tokens.find(text_[at_]) != std::string_view::npos;
    at_ += here ? 1 : 0;
    return here;
  };
  const bool negative = pass("-");
  if (!pass("0")) skip_digits(what);
  const auto integer_end = at_;
  if (pass(".")) skip_digits(what);
  if (pass("eE")) {
    pass("+-");
    skip_digits(what);
  }
  const auto* first = text_.data() + begin;
  const auto* last = text_.data() + at_;
  std::int64_t negative_integer = 0;
  std::uint64_t integer = 0;
  if (at_ == integer_end && negative && std::from_chars(first, last, negative_integer).ec == std::errc()) {
    return negative_integer;
  }
  if (at_ == integer_end && !negative && std::from_chars(first, last, integer).ec == std::errc()) {
    return integer;
  }
  double value = 0;
  if (std::from_chars(first, last, value).ec != std::errc() || !std::isfinite(value)) {
    at_ = begin;
    fail(what, "a number that a double can hold");
  }
  return value;
}

}  // namespace hooked
