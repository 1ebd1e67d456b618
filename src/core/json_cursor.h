#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace hooked {

/// Reads JSON forward, a token at a time; all JSON here is read with it. parse_json() builds documents from
/// it. What may have 100 MB of a known layout, such as safetensors headers, goes straight into values, using
/// memory only for what is kept. See docs/decisions/0033-one-json-reader.md.
///
/// Grammar: RFC 8259, strictly. All members throw std::invalid_argument with a text that gives the byte
/// position (counted from `first_byte`), what was expected and what was found.
class JsonCursor {
 public:
  /// Checks that all of `text`, which must outlive the cursor, is UTF-8 and starts without a byte order mark.
  explicit JsonCursor(std::string_view text, std::uint64_t first_byte = 0);

  /// Skips blanks and then `token`, one of `{ } [ ] : ,`. `what` says what it belongs to.
  void expect(char token, std::string_view what);

  /// Skips blanks, and `token` if it comes next; returns whether it did.
  bool consume(char token);

  /// The same for one of the words true, false and null.
  bool consume_word(std::string_view word);

  /// The next character after blanks, or NUL at the end of the text.
  char peek();

  /// A string's value (it may hold NUL), of at most `limit` bytes.
  std::string string(std::string_view what, std::size_t limit);

  /// A non-negative integer below 2^63.
  std::int64_t size(std::string_view what);

  /// Any number: an integer if it is written as one and fits into 64 bits, else a double.
  std::variant<std::int64_t, std::uint64_t, double> number(std::string_view what);

  /// Checks that only blanks are left.
  void finish(std::string_view what);

  /// The next byte after blanks, counted from `first_byte`.
  std::uint64_t position();

  /// Throws: `what` at the current byte; expected `wanted`, got the text found there.
  [[noreturn]] void fail(std::string_view what, std::string_view wanted);

 private:
  void skip_blanks() noexcept;
  std::string_view literal_here() const noexcept;
  void skip_digits(std::string_view what);
  std::uint32_t escaped_unit(std::string_view what);

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t first_byte_;
};

}  // namespace hooked
