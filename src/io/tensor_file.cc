#include "io/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/gguf_tensors.h"
#include "io/path_text.h"
#include "io/safetensors_tensors.h"
#include "io/zip_tensors.h"

namespace hooked {

std::unique_ptr<TensorFile> describe_tensors(const InputFile& file, TensorFormat format, PickledNames names) {
  switch (format) {
    case TensorFormat::kZip:
      return std::make_unique<ZipTensors>(file, names);
    case TensorFormat::kGguf:
      return std::make_unique<GgufTensors>(file);
    case TensorFormat::kSafetensors:
      break;
  }
  return std::make_unique<SafetensorsTensors>(file);
}

std::optional<std::uint64_t> TensorFile::begin_of_bytes(std::size_t) const { return std::nullopt; }

void check_rows(const InputFile& file, const TensorInfo& info, Rows rows) {
  const auto size = info.shape.empty() ? 0 : info.shape[0];
  if (!info.shape.empty() && rows.first >= 0 && rows.count >= 0 && rows.first <= size &&
      rows.count <= size - rows.first) {
    return;
  }
  throw CheckpointError(
      path_text(file.path()),
      fmt::format("tensor '{}' of shape {} does not have these rows; expected some of {}, "
                  "got {} from row {} on",
                  printable(info.name), shape_text(info.shape), size, rows.count, rows.first));
}

void check_bools(const InputFile& file, const TensorInfo& info, std::span<const std::byte> bytes) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return;
  throw CheckpointError(path_text(file.path()),
                        fmt::format("tensor '{}': element {} is not a BOOL; expected 0 or 1, got {}",
                                    printable(info.name), bad - bytes.begin(), std::to_integer<int>(*bad)));
}

}  // namespace hooked
