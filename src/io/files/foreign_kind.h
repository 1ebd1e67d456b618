#pragma once

#include <string>
#include <string_view>

namespace hooked {

/// Number of first bytes of a file that foreign_kind needs.
inline constexpr std::size_t kForeignKindBytes = 512;

/// A sentence saying that a text is a Git LFS pointer in place of the file. Empty for other texts.
std::string git_lfs_pointer(std::string_view start);

/// What a file that is not of the expected format looks like by its first bytes, or empty.
std::string foreign_kind(std::string_view start);

}  // namespace hooked
