#include "io/tensors/safetensors_tensors.h"

#include <cstddef>
#include <span>

#include "io/safetensors/safetensors_format.h"

namespace hooked {

SafetensorsTensors::SafetensorsTensors(const InputFile& file) {
  auto header = read_safetensors_header(file);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  for (const auto& info : tensors_) bytes_ += info.bytes();
}

at::Tensor SafetensorsTensors::read(const InputFile& file, std::size_t index) const {
  return read_safetensor(file, tensors_[index]);
}

at::Tensor SafetensorsTensors::read_rows(const InputFile& file, std::size_t index, Rows rows) const {
  // Rows of a dense tensor are a dense tensor.
  auto part = tensors_[index];
  check_rows(file, part, rows);
  const auto all = part.shape[0];
  const auto row_bytes = all == 0 ? 0 : part.bytes() / static_cast<std::uint64_t>(all);
  part.shape[0] = rows.count;
  part.begin += row_bytes * static_cast<std::uint64_t>(rows.first);
  part.end = part.begin + row_bytes * static_cast<std::uint64_t>(rows.count);
  return read_safetensor(file, part);
}

// An unknown dtype is refused by read(), which says so.
bool SafetensorsTensors::in_order(std::size_t index) const {
  return tensors_[index].dtype != at::ScalarType::Undefined;
}

void SafetensorsTensors::read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                                       const at::Tensor& into) const {
  const auto begin = tensors_[index].begin + static_cast<std::uint64_t>(first) * into.element_size();
  const std::span bytes(static_cast<std::byte*>(into.data_ptr()), into.nbytes());
  if (bytes.empty()) return;
  file.read(begin, bytes);
  if (into.scalar_type() == at::kBool) check_bools(file, tensors_[index], bytes);
}

std::optional<std::uint64_t> SafetensorsTensors::begin_of_bytes(std::size_t index) const {
  return tensors_[index].begin;
}

}  // namespace hooked
