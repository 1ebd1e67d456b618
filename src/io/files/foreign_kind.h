#pragma once

#include <string>
#include <string_view>

namespace hooked {

/// As many first bytes of a file as foreign_kind wants to see.
inline constexpr std::size_t kForeignKindBytes = 512;

/// Of a text that is a Git LFS pointer in the place of a file: a sentence that says so. Empty for others.
std::string git_lfs_pointer(std::string_view start);

/// What a file that is not of the expected format looks like by its first bytes, or empty.
std::string foreign_kind(std::string_view start);

}  // namespace hooked
