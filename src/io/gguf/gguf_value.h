#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

/// The type of a GGUF metadata value or of an array's elements. The numbers are those of the file.
enum class GgufType : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  text = 8,
  array = 9,  ///< of a value only: an array's elements cannot be arrays
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

/// Its name: `uint32`, `string`.
std::string_view gguf_type_name(GgufType type) noexcept;

/// Bytes of a number or bool of that type; 0 for the others.
std::size_t gguf_type_bytes(GgufType type) noexcept;

/// The shortest decimal number that is stored as these 32 bits, which is what their writer meant: 1e-05, not
/// 9.9999997e-06.
double shortest_decimal(float number);

/// A metadata value: a number, a bool, a text, or an array of one of these, kept as stored in the file.
class GgufValue {
 public:
  /// Numbers or bools: `bytes` are their bytes, contiguous.
  static GgufValue numbers(GgufType type, bool array, std::string bytes);
  /// Texts: all of them concatenated, and where each ends.
  static GgufValue texts(bool array, std::string all, std::vector<std::uint64_t> ends);

  bool is_array() const noexcept { return array_; }
  /// Elements of an array; 1 for a single value.
  std::size_t size() const noexcept;
  /// `uint32`, or `array of string`.
  std::string type_text() const;

  // Element `index`; nothing if it is of another type.
  /// An integer that fits.
  std::optional<std::int64_t> integer(std::size_t index = 0) const;
  /// A number; one of 32 bits is its shortest decimal.
  std::optional<double> real(std::size_t index = 0) const;
  std::optional<bool> boolean(std::size_t index = 0) const;
  /// A text of arbitrary bytes. Lives as long as the value.
  std::optional<std::string_view> text(std::size_t index = 0) const;

 private:
  GgufType type_ = GgufType::uint8;
  bool array_ = false;
  std::string bytes_;
  std::vector<std::uint64_t> ends_;  // of texts in bytes_
};

/// What a GGUF file says about its model, by key.
using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

/// The value of `key`, or null.
const GgufValue* find_value(const GgufMetadata& metadata, std::string_view key);

/// The integer value of `key`; nothing if it has none, an array, or a value of another kind.
std::optional<std::int64_t> find_integer(const GgufMetadata& metadata, std::string_view key);

}  // namespace hooked
