#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hooked {

/// Reads JSON of a known layout straight into values, without building a document.
///
/// Note [Why not a DOM]: safetensors headers may have 100 MB and 100,000 tensors. A document tree costs many
/// times the text, an order-keeping object looks its keys up linearly, and its errors come after the position
/// is forgotten. The cursor reads forward once, takes memory only for what is kept, and knows the byte of
/// every complaint.
///
/// Grammar: RFC 8259, strictly. All members throw std::invalid_argument with a text that says the byte
/// position (counted from `first_byte`), what was expected and what was met.
class JsonCursor {
 public:
  /// Checks that all of `text`, which must outlive the cursor, is UTF-8 and starts without a byte order mark.
  explicit JsonCursor(std::string_view text, std::uint64_t first_byte = 0);

  /// Passes blanks and then `token`, one of `{ } [ ] : ,`. `what` says what it belongs to.
  void expect(char token, std::string_view what);

  /// Passes blanks, and `token` if it comes next; says whether it did.
  bool consume(char token);

  /// A string's value (it may hold NUL), of at most `limit` bytes.
  std::string string(std::string_view what, std::size_t limit);

  /// A non-negative integer below 2^63.
  std::int64_t size(std::string_view what);

  /// Checks that only blanks are left.
  void finish(std::string_view what);

  /// The next byte after blanks, counted from `first_byte`.
  std::uint64_t position();

  /// Throws: `what` at the current byte; expected `wanted`, got what is there.
  [[noreturn]] void fail(std::string_view what, std::string_view wanted);

 private:
  void skip_blanks() noexcept;
  std::string_view literal_here() const noexcept;
  std::uint32_t escaped_unit(std::string_view what);

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t first_byte_;
};

/// The byte at which `text` stops being valid UTF-8 (RFC 3629: no overlong forms, no surrogates), or npos.
std::size_t invalid_utf8_at(std::string_view text) noexcept;

}  // namespace hooked
