#include "hooked/io/safetensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/nearest.h"
#include "hooked/core/tensor_text.h"
#include "io/path_text.h"
#include "io/safetensors_dtypes.h"

namespace hooked {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and is read as it lies");

constexpr std::uint64_t kLengthBytes = 8;

/// A Git LFS pointer's own `size` line with thousands separators, or empty.
std::string lfs_size(std::string_view text) {
  const auto line = text.find("\nsize ");
  if (line == std::string_view::npos) return {};
  text.remove_prefix(line + 6);
  const auto length = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string digits(text.substr(0, std::min<std::size_t>(length, 20)));
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

/// What a file that is no safetensors file looks like by its first bytes, or empty.
std::string foreign_kind(std::string_view start) {
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    const auto size = lfs_size(start);
    return fmt::format("this is a Git LFS pointer{}; fetch the real file",
                       size.empty() ? "" : fmt::format(" of {} bytes", size));
  }
  const auto first = start.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && start[first] == '<') return "this looks like an HTML or XML page";
  if (first != std::string_view::npos && start[first] == '{') return "this looks like plain JSON text";
  if (start.starts_with("PK\x03\x04"))
    return "this is a zip archive (PyTorch's .bin and .pt files are such archives)";
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return "this is a Python pickle";
  if (start.starts_with("\x1F\x8B")) return "this is gzip data; unpack it first";
  if (start.starts_with("GGUF")) return "this is a GGUF file";
  if (start.starts_with("\x89HDF")) return "this is an HDF5 file";
  return {};
}

struct HeaderText {
  std::unique_ptr<char[]> bytes;
  std::size_t size;
  std::string_view view() const { return {bytes.get(), size}; }
};

/// The header's text, after the checks that need no more than the first bytes of the file.
HeaderText read_header_text(const InputFile& file, std::string_view where) {
  std::array<char, 512> start_bytes{};
  const auto start_size = static_cast<std::size_t>(std::min<std::uint64_t>(start_bytes.size(), file.size()));
  file.read(0, std::as_writable_bytes(std::span(start_bytes).first(start_size)));
  const std::string_view start(start_bytes.data(), start_size);
  const auto refuse = [&](std::string_view message) {
    const auto kind = foreign_kind(start);
    throw CheckpointError(where, fmt::format("{}{}{}", message, kind.empty() ? "" : "; ", kind));
  };

  if (start.size() < kLengthBytes) {
    refuse(fmt::format("the file is too short; expected at least {} bytes for the header's length, got {}",
                       kLengthBytes, start.size()));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(start[i])} << (8 * i);
  }
  if (length > file.size() - kLengthBytes) {
    refuse(fmt::format("the header's length points past the end of the file; expected at most {}, got {}",
                       file.size() - kLengthBytes, length));
  }
  if (length > SafetensorsLimits::kHeaderBytes) {
    refuse(fmt::format("the header is too large; expected at most {} bytes, got {}",
                       SafetensorsLimits::kHeaderBytes, length));
  }
  if (length < 2) {
    refuse(fmt::format("the header is not a JSON object; expected at least 2 bytes, got {}", length));
  }
  HeaderText text{std::make_unique_for_overwrite<char[]>(length), static_cast<std::size_t>(length)};
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text.bytes.get(), text.size)));
  return text;
}

/// Bytes other than 0 and 1 are no bool in C++: reading one is undefined behaviour.
void check_bools(const InputFile& file, const TensorInfo& info, std::span<const std::byte> bytes) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return;
  throw CheckpointError(path_text(file.path()),
                        fmt::format("tensor '{}': element {} is no BOOL; expected 0 or 1, got {}",
                                    printable(info.name), bad - bytes.begin(), std::to_integer<int>(*bad)));
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  auto file = InputFile::open(path);
  const auto where = path_text(path);
  const auto text = read_header_text(file, where);
  auto header = parse_safetensors_header(text.view(), file.size(), where);
  return {std::move(file), std::move(header)};
}

SafetensorsFile::SafetensorsFile(InputFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)), by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](auto a, auto b) { return header_.tensors[a].name < header_.tensors[b].name; });
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto& all = header_.tensors;
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](auto index, std::string_view wanted) { return all[index].name < wanted; });
  return place == by_name_.end() || all[*place].name != name ? nullptr : &all[*place];
}

at::Tensor SafetensorsFile::read(std::string_view name) const {
  if (const auto* info = find(name)) return read_safetensor(file_, *info);
  std::vector<std::string> names;
  for (const auto& info : tensors()) names.push_back(info.name);
  throw CheckpointError(path_text(path()),
                        fmt::format("tensor '{}' is not in this file of {} tensors; the nearest name is '{}'",
                                    printable(name), names.size(), printable(nearest(name, names))));
}

at::Tensor read_safetensor(const InputFile& file, const TensorInfo& info) {
  if (info.dtype == at::ScalarType::Undefined) {
    throw CheckpointError(
        path_text(file.path()),
        fmt::format("tensor '{}': dtype '{}' is not supported; expected one of {}", printable(info.name),
                    printable(info.dtype_name), supported_safetensors_dtypes()));
  }
  // Uninitialised, and only after the size was checked against the file: the allocation is never larger than
  // the file.
  auto tensor = at::empty(info.shape, at::TensorOptions().dtype(info.dtype));
  const std::span bytes(static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(info.bytes()));
  if (bytes.empty()) return tensor;
  file.read(info.begin, bytes);
  if (info.dtype == at::kBool) check_bools(file, info, bytes);
  return tensor;
}

}  // namespace hooked
