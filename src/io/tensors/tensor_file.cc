#include "io/tensors/tensor_file.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <span>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/path_text.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

/// The tensors of a safetensors file.
class SafetensorsTensors final : public TensorFile {
 public:
  explicit SafetensorsTensors(const InputFile& file) {
    auto header = read_safetensors_header(file);
    tensors_ = std::move(header.tensors);
    metadata_ = std::move(header.metadata);
    for (const auto& info : tensors_) bytes_ += info.bytes();
  }

  void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                     const at::Tensor& into) const override {
    const auto begin = tensors_[index].begin + static_cast<std::uint64_t>(first) * into.element_size();
    const std::span bytes(static_cast<std::byte*>(into.data_ptr()), into.nbytes());
    if (bytes.empty()) return;
    file.read(begin, bytes);
    if (into.scalar_type() == at::kBool) check_bools(file, tensors_[index], bytes);
  }

 private:
  void require_readable(const InputFile& file, const TensorInfo& info) const override {
    if (info.dtype == at::ScalarType::Undefined)
      refuse_safetensors_dtype(path_text(file.path()), info.name, info.dtype_name);
  }
};

}  // namespace

std::unique_ptr<TensorFile> describe_tensors(const InputFile& file, TensorFormat format, PickledNames names) {
  switch (format) {
    case TensorFormat::kZip:
      return describe_zip(file, names);
    case TensorFormat::kGguf:
      return describe_gguf(file);
    case TensorFormat::kSafetensors:
      break;
  }
  return std::make_unique<SafetensorsTensors>(file);
}

at::Tensor TensorFile::read(const InputFile& file, std::size_t index) const {
  const TensorInfo& info = tensors_[index];
  require_readable(file, info);
  // Uninitialised, and only after the size was checked against the file.
  const at::Tensor tensor = at::empty(info.shape, at::TensorOptions().dtype(info.dtype));
  read_elements(file, index, 0, tensor);
  return tensor;
}

at::Tensor TensorFile::read_rows(const InputFile& file, std::size_t index, Rows rows) const {
  const TensorInfo& info = tensors_[index];
  check_rows(file, info, rows);
  require_readable(file, info);
  std::vector<std::int64_t> shape = info.shape;
  shape.front() = rows.count;
  std::int64_t row = 1;  // elements of one
  for (std::size_t i = 1; i < shape.size(); ++i) row *= shape[i];
  const at::Tensor part = at::empty(shape, at::TensorOptions().dtype(info.dtype));
  read_elements(file, index, rows.first * row, part);
  return part;
}

// Numbers that cannot be read are refused by read(), which says so.
bool TensorFile::in_order(std::size_t index) const {
  return tensors_[index].dtype != at::ScalarType::Undefined;
}

std::optional<std::uint64_t> TensorFile::begin_of_bytes(std::size_t index) const {
  return tensors_[index].begin;
}

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
