#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "hooked/io/safetensors.h"
#include "io/gguf/ggml_types.h"
#include "io/gguf/gguf_value.h"

namespace hooked {

/// Limits of the reader of GGUF files; one more is refused. The length of a text or an array is limited only
/// by the file and by the limit of the whole header.
struct GgufLimits {
  static constexpr std::uint64_t kHeaderBytes = std::uint64_t{1}
                                                << 30;  ///< metadata, and tensors' descriptions
  static constexpr std::uint64_t kEntries = 100'000;    ///< metadata values
  static constexpr std::uint64_t kTensors = 100'000;
  static constexpr std::uint64_t kRank = 4;          ///< dimensions of a tensor
  static constexpr std::uint64_t kNameBytes = 4096;  ///< bytes of a key or a tensor's name
  static constexpr std::uint64_t kAlignment = std::uint64_t{1} << 20;
};

/// A tensor of a GGUF file. Its shape is in PyTorch's order, with neighbouring numbers along the last axis;
/// the file lists the axes in reverse.
struct GgufTensor {
  TensorInfo info;                 ///< dtype_name is the type's
  const GgmlType* type = nullptr;  ///< how its numbers are stored
};

/// A validated header. Keys and names are unique. Tensors are in the order of their data; these neither
/// overlap nor have gaps between them except for their alignment.
struct GgufHeader {
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
};

/// Fills `into` with the bytes from `offset` on of something that is long enough.
using ReadBytes = std::function<void(std::uint64_t offset, std::span<std::byte> into)>;

/// Reads and validates the header of a GGUF file of `file_size` bytes, version 2 or 3, little-endian. Reads
/// nothing after it, and never allocates more than the file has bytes. `where` is the file's name for
/// messages. Throws CheckpointError that names the key, the tensor or the byte, with the actual and the
/// expected value; also throws whatever `read` throws.
/// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
GgufHeader read_gguf_header(std::uint64_t file_size, ReadBytes read, std::string_view where);

}  // namespace hooked
