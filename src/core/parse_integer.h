#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hooked {

/// The integer that all of `text` spells in decimal, with or without a minus sign; nothing if it spells none
/// or one beyond 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text) noexcept;

}  // namespace hooked
