#pragma once

#include <string>
#include <string_view>

namespace hooked {

/// As many first bytes of a file as foreign_kind wants to see.
inline constexpr std::size_t kForeignKindBytes = 512;

/// What a file that is not of the expected format looks like by its first bytes, or empty.
std::string foreign_kind(std::string_view start);

}  // namespace hooked
