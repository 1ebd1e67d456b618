#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hooked {

/// The CRC-32 of zip files (polynomial 0x04C11DB7, reflected) of what `before` is the checksum of, followed
/// by `bytes`. That of nothing is 0.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace hooked
