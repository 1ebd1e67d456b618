#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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

}  // namespace hooked
