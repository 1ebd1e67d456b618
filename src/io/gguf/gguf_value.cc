#include "io/gguf/gguf_value.h"

#include <array>
#include <bit>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "io/files/number_codes.h"

namespace hooked {
namespace {

struct GgufTypeRow {
  std::string_view name;
  std::size_t bytes;
};

// By the file's numbers.
constexpr GgufTypeRow kGgufTypes[] = {
    {"uint8", 1}, {"int8", 1},   {"uint16", 2}, {"int16", 2},  {"uint32", 4}, {"int32", 4},  {"float32", 4},
    {"bool", 1},  {"string", 0}, {"array", 0},  {"uint64", 8}, {"int64", 8},  {"float64", 8}};

}  // namespace

double shortest_decimal(float number) {
  if (!(number - number == 0.0F)) return static_cast<double>(number);  // no decimal is infinite
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  double decimal = 0.0;
  std::from_chars(digits.data(), written.ptr, decimal);
  return decimal;
}

std::string_view gguf_type_name(GgufType type) noexcept {
  return kGgufTypes[static_cast<std::size_t>(type)].name;
}

std::size_t gguf_type_bytes(GgufType type) noexcept {
  return kGgufTypes[static_cast<std::size_t>(type)].bytes;
}

GgufValue GgufValue::numbers(GgufType type, bool array, std::string bytes) {
  GgufValue value;
  value.type_ = type;
  value.array_ = array;
  value.bytes_ = std::move(bytes);
  return value;
}

GgufValue GgufValue::texts(bool array, std::string all, std::vector<std::uint64_t> ends) {
  GgufValue value;
  value.type_ = GgufType::text;
  value.array_ = array;
  value.bytes_ = std::move(all);
  value.ends_ = std::move(ends);
  return value;
}

std::size_t GgufValue::size() const noexcept {
  return type_ == GgufType::text ? ends_.size() : bytes_.size() / gguf_type_bytes(type_);
}

std::string GgufValue::type_text() const {
  return (array_ ? "array of " : "") + std::string(gguf_type_name(type_));
}

std::optional<std::int64_t> GgufValue::integer(std::size_t index) const {
  if (index >= size()) return std::nullopt;
  const auto bits = [&](std::size_t width) { return little_endian(bytes_, index * width, width); };
  switch (type_) {
    case GgufType::uint8:
    case GgufType::uint16:
    case GgufType::uint32:
      return static_cast<std::int64_t>(bits(gguf_type_bytes(type_)));
    case GgufType::int8:
      return static_cast<std::int8_t>(bits(1));
    case GgufType::int16:
      return static_cast<std::int16_t>(bits(2));
    case GgufType::int32:
      return static_cast<std::int32_t>(bits(4));
    case GgufType::int64:
      return static_cast<std::int64_t>(bits(8));
    case GgufType::uint64:
      if (bits(8) > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(bits(8));
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufValue::real(std::size_t index) const {
  if (index >= size()) return std::nullopt;
  if (type_ == GgufType::float32) {
    return shortest_decimal(
        std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(bytes_, index * 4, 4))));
  }
  if (type_ == GgufType::float64) return std::bit_cast<double>(little_endian(bytes_, index * 8, 8));
  const auto whole = integer(index);
  return whole ? std::optional<double>(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean(std::size_t index) const {
  if (type_ != GgufType::boolean || index >= size()) return std::nullopt;
  return bytes_[index] != '\0';
}

std::optional<std::string_view> GgufValue::text(std::size_t index) const {
  if (type_ != GgufType::text || index >= size()) return std::nullopt;
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(bytes_).substr(begin, ends_[index] - begin);
}

const GgufValue* find_value(const GgufMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> find_integer(const GgufMetadata& metadata, std::string_view key) {
  const GgufValue* value = find_value(metadata, key);
  return value == nullptr || value->is_array() ? std::nullopt : value->integer();
}

}  // namespace hooked
