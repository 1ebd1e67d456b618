#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/gguf/ggml_types.h"
#include "io/gguf/gguf_value.h"
#include "io/tensors/tensor_file.h"

namespace hooked {

/// The tensors of a GGUF file. Those whose numbers are stored in a few bits are read as float32: blocks are
/// decoded on demand.
class GgufTensors final : public TensorFile {
 public:
  /// Throws CheckpointError or IoError.
  explicit GgufTensors(const InputFile& file);

  at::Tensor read(const InputFile& file, std::size_t index) const override;
  at::Tensor read_rows(const InputFile& file, std::size_t index, Rows rows) const override;
  bool in_order(std::size_t index) const override;
  void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                     const at::Tensor& into) const override;
  std::optional<std::uint64_t> begin_of_bytes(std::size_t index) const override;
  const GgufMetadata* gguf() const noexcept override { return &gguf_; }

 private:
  GgufMetadata gguf_;
  std::vector<const GgmlType*> types_;  // of the tensors
};

}  // namespace hooked
