#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace hooked {

// Every size that is computed from a file's numbers is computed here.

/// Bytes of a dense tensor of elements of `bits` bits, or nothing when they, its element count or its strides
/// do not fit an int64, or when they are not a whole number of bytes. No size may be negative.
std::optional<std::uint64_t> checked_bytes(std::span<const std::int64_t> shape, std::uint64_t bits);

/// Elements from the first to the last of a strided tensor, both counted; 0 when it has none. Nothing when
/// they do not fit an int64. No size and no stride may be negative.
std::optional<std::uint64_t> checked_span(std::span<const std::int64_t> shape,
                                          std::span<const std::int64_t> strides);

}  // namespace hooked
