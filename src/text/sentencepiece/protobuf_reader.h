#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hooked::text {

/// Walks the fields of one message in protobuf's wire format, in the order of its bytes
/// (https://protobuf.dev/programming-guides/encoding). Messages inside it are bytes, which another reader
/// walks: nothing recurses, and nothing is copied.
class ProtobufReader {
 public:
  /// How a field's value is written. Groups, which are obsolete, are refused.
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  /// One field: its number, and its value as `wire` says.
  struct Field {
    std::uint32_t number = 0;  ///< 1 or more
    Wire wire = Wire::varint;
    std::uint64_t value = 0;  ///< of a varint or of fixed bits
    std::string_view bytes;   ///< of Wire::bytes
    std::size_t at = 0;       ///< where the field begins in the outermost message

    /// The value as the type that the caller expects. Each throws std::invalid_argument, with the place, if
    /// the field is written in another way or does not fit: text must be UTF-8, a boolean 0 or 1.
    std::string_view text() const;
    std::string_view message() const;
    float number32() const;
    bool boolean() const;
    std::uint64_t count() const;

   private:
    void expect(Wire wanted) const;
  };

  /// Reads `message`, which begins at byte `base` of the outermost message and must outlive this.
  explicit ProtobufReader(std::string_view message, std::size_t base = 0) : message_(message), base_(base) {}

  /// The next field, or nothing at the end. Throws std::invalid_argument, with the place and the numbers, for
  /// a malformed field: cut off, a length past the end, a number that does not fit, a field 0.
  std::optional<Field> next();

  /// Where the bytes of `field` begin in the outermost message, for a reader of a message inside.
  std::size_t base_of(const Field& field) const noexcept {
    return base_ + static_cast<std::size_t>(field.bytes.data() - message_.data());
  }

 private:
  std::uint64_t varint();
  std::uint64_t fixed(std::size_t bytes);

  std::string_view message_;
  std::size_t base_;
  std::size_t at_ = 0;
};

}  // namespace hooked::text
