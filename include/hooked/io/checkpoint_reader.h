#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/io/safetensors.h"

namespace hooked {

/// What the files of a model folder may be; each is refused one above.
struct CheckpointLimits {
  static constexpr std::uint64_t kIndexBytes = std::uint64_t{64} << 20;
  static constexpr std::size_t kShards = 10'000;
};

/// The tensors of a model folder under the names the files give them.
///
/// The folder holds `model.safetensors`, or `model.safetensors.index.json` and the shards it lists. Where
/// both are there, the single file is read and notes() says so (the order that Hugging Face's transformers
/// uses). All headers are read and checked against the index and the files' sizes when the reader is made;
/// tensor data is read on demand, with a bounded number of files open. Shard names must be plain file names;
/// the files may be symbolic links. Reading is const and may happen in several threads at once.
class CheckpointReader {
 public:
  /// Throws IoError or CheckpointError; a missing shard, or a tensor that index and shards disagree about, is
  /// listed together with all the others.
  static CheckpointReader open(const std::filesystem::path& folder);

  CheckpointReader(CheckpointReader&& other) noexcept;
  CheckpointReader& operator=(CheckpointReader&& other) noexcept;
  ~CheckpointReader();

  const std::filesystem::path& folder() const noexcept;

  /// All tensors' names, shard by shard in the order of their data.
  const std::vector<std::string>& names() const noexcept;

  bool contains(std::string_view name) const noexcept;

  /// dtype, shape and size of a tensor, without reading it. Throws CheckpointError with the nearest name.
  const TensorInfo& info(std::string_view name) const;

  /// The file that holds a tensor. Throws CheckpointError with the nearest name.
  const std::filesystem::path& file_of(std::string_view name) const;

  /// The tensor in its stored dtype, in fresh memory on the CPU.
  /// Throws CheckpointError for a name or dtype that is not there to read, IoError when a file was changed.
  at::Tensor read(std::string_view name) const;

  /// Bytes of all tensors as stored.
  std::uint64_t bytes() const noexcept;

  /// The `__metadata__` of all files; the first file that has a key gives its value.
  const std::map<std::string, std::string>& metadata() const noexcept;

  /// What a user should know about these files, a sentence each; empty for a folder without oddities.
  const std::vector<std::string>& notes() const noexcept;

 private:
  struct Contents;
  explicit CheckpointReader(std::unique_ptr<Contents> contents) noexcept;

  std::unique_ptr<Contents> contents_;
};

}  // namespace hooked
