#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "io/pickle/zip_limits.h"

namespace hooked {

/// One of PyTorch's zip files alone, as io/tensors/zip_tensors.cc reads it: what CheckpointReader makes of
/// a `.pt` file, without looking for files.
class ZipCheckpoint {
 public:
  /// Opens and checks the archive's directory and the pickle; reads no tensor data.
  /// Throws IoError (the system refused) or CheckpointError (content).
  static ZipCheckpoint open(const std::filesystem::path& path);

  ZipCheckpoint(ZipCheckpoint&& other) noexcept;
  ZipCheckpoint& operator=(ZipCheckpoint&& other) noexcept;
  ~ZipCheckpoint();

  const std::filesystem::path& path() const noexcept;

  /// All tensors of the state dict in its order. `begin` and `end` enclose a tensor's elements in the file.
  const std::vector<TensorInfo>& tensors() const noexcept;

  /// Entries next to the state dict without tensors in them, by key: a training script's `model_args`,
  /// for instance. A JSON object, empty when there is nothing.
  const std::string& values() const noexcept;

  /// What a user should know about this file, a sentence each.
  const std::vector<std::string>& notes() const noexcept;

  /// The tensor of that name, or null. Valid as long as this object.
  const TensorInfo* find(std::string_view name) const noexcept;

  /// The named tensor in its stored dtype, shape and strides, in fresh memory on the CPU: its elements and
  /// what lies between them in the file, shared with no other tensor.
  /// The first read of a storage reads all of it and compares its checksum. Throws CheckpointError for a
  /// missing name or a wrong checksum, IoError when the file was changed.
  at::Tensor read(std::string_view name) const;

  /// Rows `first` to `first + count` of the named tensor's first axis: [count, ...].
  /// Reads nothing else. The checksum is compared only when the rows of a storage are read in order, all of
  /// them. Throws as read() does, and CheckpointError for rows that the tensor does not have.
  at::Tensor read_rows(std::string_view name, std::int64_t first, std::int64_t count) const;

 private:
  struct Contents;
  explicit ZipCheckpoint(std::unique_ptr<Contents> contents) noexcept;

  std::size_t index_of(std::string_view name) const;

  std::unique_ptr<Contents> contents_;
};

}  // namespace hooked
