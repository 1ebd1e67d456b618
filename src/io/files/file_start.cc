#include "io/files/file_start.h"

#include <span>
#include <string>

#include "hooked/io/file.h"

namespace hooked {

bool file_starts_with(const std::filesystem::path& file, std::string_view start) {
  const auto input = InputFile::open(file);
  if (input.size() < start.size()) return false;
  std::string bytes(start.size(), '\0');
  input.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes == start;
}

}  // namespace hooked
