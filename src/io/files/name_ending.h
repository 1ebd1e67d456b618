#pragma once

#include <filesystem>
#include <string_view>

namespace hooked {

/// Throws IoError saying that `what` is not read from a file of this name, whose ending is not one of
/// `endings`
/// (".csv or .json"), or that there is no such file.
[[noreturn]] void refuse_ending(const std::filesystem::path& file, std::string_view what,
                                std::string_view endings);

}  // namespace hooked
