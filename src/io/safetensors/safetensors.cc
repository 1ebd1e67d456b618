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
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/foreign_kind.h"
#include "io/files/number_codes.h"
#include "io/files/path_text.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and is read as it lies");

struct HeaderText {
  std::unique_ptr<char[]> bytes;
  std::size_t size;
  std::string_view view() const { return {bytes.get(), size}; }
};

/// The header's text, after the checks that need no more than the first bytes of the file.
HeaderText read_header_text(const InputFile& file, std::string_view where) {
  std::array<char, kForeignKindBytes> start_bytes{};
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
  const auto length = little_endian(start, 0, kLengthBytes);
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

/// The first names of a file.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(names[i]));
  return names.size() > kShown ? text + ", ..." : text;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const auto where = path_text(file.path());
  const auto text = read_header_text(file, where);
  return parse_safetensors_header(text.view(), file.size(), where);
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  auto file = InputFile::open(path);
  auto header = read_safetensors_header(file);
  return {std::move(file), std::move(header)};
}

SafetensorsFile::SafetensorsFile(InputFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)), by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::ranges::sort(
      by_name_, {}, [&](auto index) -> auto& { return header_.tensors[index].name; });
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const& noexcept {
  const auto& all = header_.tensors;
  const auto place = std::ranges::lower_bound(
      by_name_, name, {}, [&](auto index) -> auto& { return all[index].name; });
  return place == by_name_.end() || all[*place].name != name ? nullptr : &all[*place];
}

std::optional<TensorInfo> SafetensorsFile::find(std::string_view name) const&& {
  const TensorInfo* found = find(name);
  return found ? std::optional(*found) : std::nullopt;
}

at::Tensor SafetensorsFile::read(std::string_view name) const {
  if (const auto* info = find(name)) return read_safetensor(file_, *info);
  std::vector<std::string> names;
  for (const auto& info : tensors()) names.push_back(info.name);
  std::string which = printable(nearest_text("; the nearest name is '{}'", name, names));
  if (which.empty() && !names.empty()) which = fmt::format("; it has {}", some_of(names));
  throw CheckpointError(path_text(path()), fmt::format("tensor '{}' is not in this file of {} tensors{}",
                                                       printable(name), names.size(), which));
}

std::map<std::string, at::Tensor> load_safetensors(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  std::map<std::string, at::Tensor> tensors;
  for (const TensorInfo& info : file.tensors())
    tensors.emplace(info.name, read_safetensor(file.file(), info));
  return tensors;
}

void refuse_safetensors_dtype(const std::string& where, std::string_view name, std::string_view dtype) {
  throw CheckpointError(
      where, fmt::format("tensor '{}': dtype '{}' is not supported; expected one of {}", printable(name),
                         printable(dtype), supported_safetensors_dtypes()));
}

void check_bools(const InputFile& file, const TensorInfo& info, std::span<const std::byte> bytes) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return;
  throw CheckpointError(path_text(file.path()),
                        fmt::format("tensor '{}': element {} is not a BOOL; expected 0 or 1, got {}",
                                    printable(info.name), bad - bytes.begin(), std::to_integer<int>(*bad)));
}

at::Tensor read_safetensor(const InputFile& file, const TensorInfo& info) {
  if (info.dtype == at::ScalarType::Undefined) {
    refuse_safetensors_dtype(path_text(file.path()), info.name, info.dtype_name);
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
