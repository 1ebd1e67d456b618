#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hooked {

/// A tensor that a sparse checkpoint has the header of.
struct SparseTensor {
  std::string name;
  std::string dtype;  ///< as safetensors spells it
  std::vector<std::int64_t> shape;
};

/// Writes shards and their index into `folder`: whole headers, and files of the size that these describe, in
/// which no number is written. A file system with sparse files keeps no more than the headers. Returns the
/// shards' names.
std::vector<std::string> write_sparse_checkpoint(const std::filesystem::path& folder,
                                                 const std::vector<SparseTensor>& tensors,
                                                 std::size_t shards);

}  // namespace hooked
