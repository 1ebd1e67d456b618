#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace hooked {

/// CRC-32 (that of zip and PNG) of bytes that follow those whose checksum is `before`.
std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before = 0);

/// CRC-32 of a file's bytes. Throws IoError.
std::uint32_t file_crc32(const std::filesystem::path& path);

}  // namespace hooked
