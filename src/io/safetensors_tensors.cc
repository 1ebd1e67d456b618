#include "io/safetensors_tensors.h"

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
  // Rows of a dense tensor are a dense tensor by themselves.
  auto part = tensors_[index];
  check_rows(file, part, rows);
  const auto all = part.shape[0];
  const auto row_bytes = all == 0 ? 0 : part.bytes() / static_cast<std::uint64_t>(all);
  part.shape[0] = rows.count;
  part.begin += row_bytes * static_cast<std::uint64_t>(rows.first);
  part.end = part.begin + row_bytes * static_cast<std::uint64_t>(rows.count);
  return read_safetensor(file, part);
}

}  // namespace hooked
