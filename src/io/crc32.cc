#include "io/crc32.h"

#include <array>

namespace hooked {
namespace {

constexpr std::size_t kBytesAtOnce = 16;
constexpr std::uint32_t kPolynomial = 0xEDB88320;  // reflected

using Table = std::array<std::uint32_t, 256>;

/// tables[k][b]: what byte b adds to the checksum when k more bytes follow it. Sixteen bytes then need
/// sixteen independent look-ups instead of a chain of them.
constexpr std::array<Table, kBytesAtOnce> make_tables() {
  std::array<Table, kBytesAtOnce> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    auto value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t later = 1; later < kBytesAtOnce; ++later) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto value = tables[later - 1][byte];
      tables[later][byte] = (value >> 8) ^ tables[0][value & 0xFF];
    }
  }
  return tables;
}

constexpr auto kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  auto value = ~before;
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  for (; bytes.size() >= kBytesAtOnce; bytes = bytes.subspan(kBytesAtOnce)) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 4; ++i) next ^= kTables[15 - i][(at(i) ^ (value >> (8 * i))) & 0xFF];
    for (std::size_t i = 4; i < kBytesAtOnce; ++i) next ^= kTables[15 - i][at(i)];
    value = next;
  }
  for (const auto byte : bytes) {
    value = (value >> 8) ^ kTables[0][(value ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  }
  return ~value;
}

}  // namespace hooked
