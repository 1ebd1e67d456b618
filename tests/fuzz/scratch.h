#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/support/temp_folder.h"

namespace hooked {

// Where properties put their inputs as files.

/// A folder in memory, one for each program.
inline const TempFolder& scratch() {
  static const TempFolder folder;
  return folder;
}

inline void write_bytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Writes a file of that name in scratch().
inline std::filesystem::path put(const std::string& name, std::string_view bytes) {
  const auto file = scratch() / name;
  write_bytes(file, bytes);
  return file;
}

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A safetensors file of a header and data.
inline std::string safetensors_of(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xFF));
  return bytes.append(header).append(data);
}

/// The data of such a file, after its header.
inline std::string data_of(std::string_view file) {
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  return std::string(file.substr(8 + length));
}

}  // namespace hooked
