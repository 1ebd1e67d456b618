#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hooked {

/// A tensor in the header of a sparse checkpoint.
struct SparseTensor {
  std::string name;
  std::string dtype;  ///< as safetensors spells it
  std::vector<std::int64_t> shape;
};

/// Writes shards and their index into `folder`: complete headers, and files of the size that these state, in
/// which no number is written. A file system with sparse files stores only the headers. Returns the
/// shards' names.
std::vector<std::string> write_sparse_checkpoint(const std::filesystem::path& folder,
                                                 const std::vector<SparseTensor>& tensors,
                                                 std::size_t shards);

}  // namespace hooked
