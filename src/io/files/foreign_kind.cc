#include "io/files/foreign_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace hooked {
namespace {

/// A Git LFS pointer's own `size` line with thousands separators, or empty.
std::string lfs_size(std::string_view text) {
  const auto line = text.find("\nsize ");
  if (line == std::string_view::npos) return {};
  text.remove_prefix(line + 6);
  const auto length = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string digits(text.substr(0, std::min<std::size_t>(length, 20)));
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

/// Formats of numbers have zeros or other control characters among their first bytes.
bool looks_like_text(std::string_view start) {
  constexpr std::size_t kEnough = 16;
  return start.size() >= kEnough && std::ranges::none_of(start, [](unsigned char c) {
           return c == 0x7F || (c < ' ' && c != '\n' && c != '\r' && c != '\t');
         });
}

}  // namespace

std::string git_lfs_pointer(std::string_view start) {
  if (!start.starts_with("version https://git-lfs.github.com/spec/")) return {};
  const auto size = lfs_size(start);
  return fmt::format("this is a Git LFS pointer{}; fetch the real file",
                     size.empty() ? "" : fmt::format(" of {} bytes", size));
}

std::string foreign_kind(std::string_view start) {
  if (auto pointer = git_lfs_pointer(start); !pointer.empty()) return pointer;
  const auto first = start.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && start[first] == '<') return "this looks like an HTML or XML page";
  if (first != std::string_view::npos && start[first] == '{') return "this looks like plain JSON text";
  if (start.starts_with("PK\x03\x04"))
    return "this is a zip archive (PyTorch's .bin and .pt files are such archives)";
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return "this is a Python pickle";
  if (start.size() >= 262 && start.substr(257, 5) == "ustar") return "this is a tar archive";
  if (start.starts_with("\x1F\x8B")) return "this is gzip data; unpack it first";
  if (start.starts_with("GGUF")) return "this is a GGUF file";
  if (start.starts_with("\x89HDF")) return "this is an HDF5 file";
  if (looks_like_text(start)) return "this looks like a text";
  return {};
}

}  // namespace hooked
