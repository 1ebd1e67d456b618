#include "io/tensors/tensor_file.h"

#include <fmt/format.h>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/path_text.h"
#include "io/tensors/gguf_tensors.h"
#include "io/tensors/safetensors_tensors.h"
#include "io/tensors/zip_tensors.h"

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

}  // namespace hooked
