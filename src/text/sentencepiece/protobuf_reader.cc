#include "text/sentencepiece/protobuf_reader.h"

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

#include "core/utf8.h"

namespace hooked::text {

void ProtobufReader::Field::expect(Wire wanted) const {
  if (wire == wanted) return;
  throw std::invalid_argument(fmt::format("field {} at byte {} has the wire type {}; expected {}", number, at,
                                          static_cast<int>(wire), static_cast<int>(wanted)));
}

std::string_view ProtobufReader::Field::text() const {
  expect(Wire::bytes);
  if (const auto byte = first_invalid_byte(bytes)) {
    throw std::invalid_argument(fmt::format(
        "field {} at byte {} is not UTF-8 from its byte {} on; expected text", number, at, *byte));
  }
  return bytes;
}

std::string_view ProtobufReader::Field::message() const {
  expect(Wire::bytes);
  return bytes;
}

float ProtobufReader::Field::number32() const {
  expect(Wire::fixed32);
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

bool ProtobufReader::Field::boolean() const {
  expect(Wire::varint);
  if (value <= 1) return value == 1;
  throw std::invalid_argument(fmt::format("field {} at byte {} is {}; expected 0 or 1", number, at, value));
}

std::uint64_t ProtobufReader::Field::count() const {
  expect(Wire::varint);
  return value;
}

std::uint64_t ProtobufReader::varint() {
  constexpr int kBits = 64;
  std::uint64_t value = 0;
  const auto begin = at_;
  for (int shift = 0; at_ < message_.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    const std::uint64_t bits = byte & 0x7FU;
    if (shift >= kBits || (shift > 0 && bits << shift >> shift != bits)) {
      throw std::invalid_argument(
          fmt::format("the number at byte {} is too large; expected at most 64 bits", base_ + begin));
    }
    value |= bits << shift;
    if (byte < 0x80) return value;
  }
  throw std::invalid_argument(
      fmt::format("ends inside the number at byte {}; expected the rest of it", base_ + begin));
}

std::uint64_t ProtobufReader::fixed(std::size_t bytes) {
  if (message_.size() - at_ < bytes) {
    throw std::invalid_argument(fmt::format("ends {} bytes into the number at byte {}; expected {}",
                                            message_.size() - at_, base_ + at_, bytes));
  }
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(message_[at_ + i]);
  at_ += bytes;
  return value;
}

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (at_ == message_.size()) return std::nullopt;
  Field field;
  field.at = base_ + at_;
  const auto tag = varint();
  if (tag >> 3 == 0 || tag >> 32 != 0) {
    throw std::invalid_argument(
        fmt::format("has the field number {} at byte {}; expected 1 to 2^29 - 1", tag >> 3, field.at));
  }
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.wire = static_cast<Wire>(tag & 7);
  switch (field.wire) {
    case Wire::varint:
      field.value = varint();
      return field;
    case Wire::fixed64:
      field.value = fixed(8);
      return field;
    case Wire::fixed32:
      field.value = fixed(4);
      return field;
    case Wire::bytes: {
      const auto length = varint();
      if (length > message_.size() - at_) {
        throw std::invalid_argument(
            fmt::format("field {} at byte {} has {} bytes; expected at most the {} that "
                        "follow",
                        field.number, field.at, length, message_.size() - at_));
      }
      field.bytes = message_.substr(at_, length);
      at_ += length;
      return field;
    }
  }
  throw std::invalid_argument(fmt::format("field {} at byte {} has the wire type {}; expected 0, 1, 2 or 5",
                                          field.number, field.at, tag & 7));
}

}  // namespace hooked::text
