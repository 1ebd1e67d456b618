#include "io/files/checksum.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "hooked/io/file.h"

namespace hooked {

std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::uint32_t file_crc32(const std::filesystem::path& path) {
  const InputFile file = InputFile::open(path);
  std::string piece(std::size_t{256} << 10, '\0');  // stays in a core's cache
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < file.size();) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), file.size() - at)));
    file.read(at, std::as_writable_bytes(std::span(piece)));
    crc = crc32_of(piece, crc);
    at += piece.size();
  }
  return crc;
}

}  // namespace hooked
