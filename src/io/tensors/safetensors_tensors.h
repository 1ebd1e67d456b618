#pragma once

#include "io/tensors/tensor_file.h"

namespace hooked {

/// The tensors of a safetensors file.
class SafetensorsTensors final : public TensorFile {
 public:
  explicit SafetensorsTensors(const InputFile& file);

  at::Tensor read(const InputFile& file, std::size_t index) const override;
  at::Tensor read_rows(const InputFile& file, std::size_t index, Rows rows) const override;
  bool in_order(std::size_t index) const override;
  void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                     const at::Tensor& into) const override;
  std::optional<std::uint64_t> begin_of_bytes(std::size_t index) const override;
};

}  // namespace hooked
