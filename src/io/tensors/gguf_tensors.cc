#include "io/tensors/gguf_tensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "io/files/path_text.h"
#include "io/gguf/gguf_header.h"

namespace hooked {
namespace {

constexpr std::uint64_t kDecodedAtOnce = std::uint64_t{1} << 20;  // bytes of blocks

std::int64_t element_count(const TensorInfo& info) {
  return std::accumulate(info.shape.begin(), info.shape.end(), std::int64_t{1}, std::multiplies<>());
}

[[noreturn]] void refuse_ggml_type(const InputFile& file, const TensorInfo& info) {
  throw CheckpointError(
      path_text(file.path()),
      fmt::format("tensor '{}': {} is not supported; expected one of {}; quantise the model "
                  "to one of them",
                  printable(info.name), info.dtype_name, supported_ggml_types()));
}

// The numbers `first` to `first + count` of a tensor whose blocks begin at byte `begin` of the file.
void read_blocks(const InputFile& file, const GgmlType& type, std::uint64_t begin, std::int64_t first,
                 std::int64_t count, float* into) {
  const std::int64_t size = type.elements, end = first + count;
  const std::int64_t last_block = (end + size - 1) / size;
  const auto at_once = static_cast<std::int64_t>(kDecodedAtOnce / type.bytes);
  std::vector<std::byte> bytes;
  std::array<float, 256> part{};  // of a block that is only partly wanted
  for (std::int64_t block = first / size; block < last_block;) {
    const std::int64_t blocks = std::min(at_once, last_block - block);
    bytes.resize(static_cast<std::size_t>(blocks) * type.bytes);
    file.read(begin + static_cast<std::uint64_t>(block) * type.bytes, bytes);
    for (std::int64_t i = 0; i < blocks; ++i, ++block) {
      const std::byte* stored = bytes.data() + static_cast<std::uint64_t>(i) * type.bytes;
      const std::int64_t from = block * size;  // position of the block's first number among all
      if (from >= first && from + size <= end) {
        type.decode(stored, into + (from - first));
        continue;
      }
      type.decode(stored, part.data());
      const std::int64_t wanted = std::max(from, first), wanted_end = std::min(from + size, end);
      std::copy(part.begin() + (wanted - from), part.begin() + (wanted_end - from), into + (wanted - first));
    }
  }
}

}  // namespace

GgufTensors::GgufTensors(const InputFile& file) {
  GgufHeader header = read_gguf_header(
      file.size(), [&](std::uint64_t offset, std::span<std::byte> into) { file.read(offset, into); },
      path_text(file.path()));
  gguf_ = std::move(header.metadata);
  for (GgufTensor& tensor : header.tensors) {
    bytes_ += tensor.info.bytes();
    types_.push_back(tensor.type);
    tensors_.push_back(std::move(tensor.info));
  }
}

at::Tensor GgufTensors::read(const InputFile& file, std::size_t index) const {
  const TensorInfo& info = tensors_[index];
  if (info.dtype == at::ScalarType::Undefined) refuse_ggml_type(file, info);
  at::Tensor tensor = at::empty(info.shape, at::TensorOptions().dtype(info.dtype));
  read_elements(file, index, 0, tensor);
  return tensor;
}

at::Tensor GgufTensors::read_rows(const InputFile& file, std::size_t index, Rows rows) const {
  const TensorInfo& info = tensors_[index];
  if (info.dtype == at::ScalarType::Undefined) refuse_ggml_type(file, info);
  check_rows(file, info, rows);
  std::vector<std::int64_t> shape = info.shape;
  shape.front() = rows.count;
  at::Tensor part = at::empty(shape, at::TensorOptions().dtype(info.dtype));
  const std::int64_t row = info.shape.front() == 0 ? 0 : element_count(info) / info.shape.front();
  read_elements(file, index, rows.first * row, part);
  return part;
}

// A type that cannot be read is refused by read(), which says so.
bool GgufTensors::in_order(std::size_t index) const {
  return tensors_[index].dtype != at::ScalarType::Undefined;
}

void GgufTensors::read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                                const at::Tensor& into) const {
  const GgmlType& type = *types_[index];
  if (into.numel() == 0) return;
  if (type.decode != nullptr) {
    read_blocks(file, type, tensors_[index].begin, first, into.numel(), static_cast<float*>(into.data_ptr()));
    return;
  }
  file.read(tensors_[index].begin + static_cast<std::uint64_t>(first) * type.bytes,
            std::span(static_cast<std::byte*>(into.data_ptr()), into.nbytes()));
}

std::optional<std::uint64_t> GgufTensors::begin_of_bytes(std::size_t index) const {
  return tensors_[index].begin;
}

}  // namespace hooked
