#include "io/json_cursor.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/json.h"

namespace hooked {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void append_utf8(std::string& out, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

}  // namespace

std::size_t invalid_utf8_at(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - i >= 8) {
      std::memcpy(&eight, text.data() + i, 8);
      if ((eight & 0x8080808080808080U) == 0) {  // eight ASCII bytes at once: headers are nearly all ASCII
        i += 8;
        continue;
      }
    }
    const auto lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() - i < length) return i;
    // The second byte's range excludes overlong forms (E0, F0), surrogates (ED) and points above 10FFFF (F4).
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (std::size_t k = 2; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

JsonCursor::JsonCursor(std::string_view text, std::uint64_t first_byte)
    : text_(text), first_byte_(first_byte) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    throw std::invalid_argument(fmt::format("byte {}; expected JSON, got a byte order mark", first_byte));
  }
  const auto bad = invalid_utf8_at(text);
  if (bad != std::string_view::npos) {
    throw std::invalid_argument(fmt::format("byte {}; expected UTF-8, got byte 0x{:02x}", first_byte + bad,
                                            static_cast<unsigned char>(text[bad])));
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

void JsonCursor::expect(char token, std::string_view what) {
  if (!consume(token)) fail(what, fmt::format("'{}'", token));
}

void JsonCursor::finish(std::string_view what) {
  skip_blanks();
  if (at_ != text_.size()) fail(what, "nothing more");
}

std::uint32_t JsonCursor::escaped_unit(std::string_view what) {
  std::uint32_t unit = 0;
  for (int k = 0; k < 4; ++k, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(c)) {
      unit = unit << 4 | static_cast<std::uint32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      unit = unit << 4 | static_cast<std::uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      fail(what, "four hexadecimal digits after \\u");
    }
  }
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
  if (literal.empty() || leading_zero) fail(what, "a whole number from 0 on");
  std::uint64_t value = 0;
  for (const char c : literal) {
    if (!is_digit(c)) fail(what, "a whole number from 0 on");
    const auto digit = static_cast<std::uint64_t>(c - '0');
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (value > (kLargest - digit) / 10) fail(what, "a number below 2^63 (overflow)");
    value = value * 10 + digit;
  }
  at_ += literal.size();
  return static_cast<std::int64_t>(value);
}

}  // namespace hooked
