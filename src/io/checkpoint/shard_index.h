#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hooked {

/// What an index file (`model.safetensors.index.json`, `pytorch_model.bin.index.json`) says.
struct ShardIndex {
  /// Shards' file names, each once, in the order the file first names them. They are plain file names.
  std::vector<std::string> shards;

  struct Entry {
    std::string tensor;
    std::size_t shard;  ///< index into `shards`
  };
  /// Sorted by tensor; every tensor once.
  std::vector<Entry> entries;

  /// `metadata.total_size` in bytes, if it is a whole number.
  std::optional<std::uint64_t> total_bytes;

  /// The index restricted to the other shards. Their `total_bytes` is not known.
  ShardIndex without(const std::vector<std::string>& left_out) const;

  /// The entry of that tensor, or null.
  const Entry* find(std::string_view tensor) const noexcept;
};

/// Reads and validates an index file. Throws IoError or CheckpointError, the latter before any shard is
/// opened if a shard's name could lead out of the folder.
ShardIndex read_shard_index(const std::filesystem::path& path);

/// A tensor, and which of the index's shards holds it.
using HeldTensor = std::pair<std::string_view, std::size_t>;

/// What to do with the tensors that shards hold.
struct IndexAgreement {
  std::set<HeldTensor> left_out;                 ///< that are not read; views of the names given
  std::map<std::string, std::string> misplaced;  ///< no copy of them is read; a sentence about each
  std::vector<std::string> notes;                ///< what a user should know, a sentence for each kind
};

/// Note [Index and shards]
/// The index alone says which copy of a tensor is meant. A tensor is read from the shard that the index
/// names, and from no other. A tensor that the index does not name is read from the only shard that has it.
/// Other disagreements may concern nobody, so they are notes here, and errors for callers that need those
/// tensors.
///
/// `where` names the index file in notes.
IndexAgreement compare_with_index(const ShardIndex& index, const std::vector<HeldTensor>& held,
                                  std::string_view where);

}  // namespace hooked
