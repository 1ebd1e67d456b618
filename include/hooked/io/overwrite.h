#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// What writing a file may replace. Neither value ever replaces a folder or a device, or writes inside a hub
/// cache. docs/cache-files.md says how to tell that hooked wrote a file, for each kind of file.
enum class Overwrite : std::uint8_t {
  ours,  ///< a file of the same kind that hooked wrote
  any,   ///< any regular file
};

/// Throws IoError if `file` is one of the files `read`, through whatever path, symbolic link or hard link:
/// for programs that must not overwrite their input.
void require_not_read(const std::filesystem::path& file, const std::vector<std::filesystem::path>& read);

}  // namespace hooked
