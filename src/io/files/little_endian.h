#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hooked {

/// The unsigned number in the `width` (at most 8) bytes of `bytes` from `at` on, the lowest byte first.
inline std::uint64_t little_endian(std::string_view bytes, std::size_t at, std::size_t width) {
  assert(width <= 8 && at + width <= bytes.size());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

}  // namespace hooked
