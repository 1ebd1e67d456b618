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
#include "io/plain_value.h"

namespace hooked {

/// What the reader of PyTorch's zip files accepts; each is refused one above.
struct ZipCheckpointLimits {
  static constexpr std::uint64_t kEntries = 131'072;
  static constexpr std::uint64_t kDirectoryBytes = std::uint64_t{32} << 20;
  /// Of an entry of the archive, and of a tensor.
  static constexpr std::size_t kNameBytes = 4096;
  static constexpr std::uint64_t kPickleBytes = std::uint64_t{64} << 20;
  /// Memory for what the pickle describes, without the pickle itself: enough for 100,000 plain tensors.
  static constexpr std::uint64_t kBuiltBytes = std::uint64_t{56} << 20;
  /// Values on the pickle's stack, marks included.
  static constexpr std::size_t kStack = 65'536;
  static constexpr std::size_t kMemo = std::size_t{1} << 20;
  static constexpr std::size_t kTensors = 100'000;
  static constexpr std::size_t kRank = 8;
  /// Of the plain values beside the tensors: lists and dicts inside each other, all values, bytes of all
  /// texts.
  static constexpr std::size_t kPlainDepth = 64;
  static constexpr std::size_t kPlainValues = 262'144;
  static constexpr std::size_t kPlainBytes = std::size_t{4} << 20;
};

/// A checkpoint as `torch.save` writes it since PyTorch 1.6 (`.bin`, `.pt`, `.pth`): a zip archive of a
/// pickle and the tensors' storages.
///
/// The file is not trusted. Of the pickle only what describes tensors and plain containers is understood;
/// whatever names something else is refused before it has any effect, and nothing is ever imported, called or
/// run. The state dict is the pickle's top dict, or lies one level below under `model`, `state_dict` or
/// `model_state_dict`. When all its names begin with `_orig_mod.`, as after torch.compile, this is left off.
///
/// Tensor data is read on demand; devices recorded in the file are ignored. Reading is const and may happen
/// in several threads at once. docs/decisions/0013-zip-checkpoints-by-our-own-reader.md has the reasons.
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

  /// What lies beside the state dict and has no tensors in it, by its key: a training script's `model_args`,
  /// for instance. A dict, empty when there is nothing.
  const PlainValue& values() const noexcept;

  /// What a user should know about this file, a sentence each.
  const std::vector<std::string>& notes() const noexcept;

  /// The tensor of that name, or null. Valid as long as this object.
  const TensorInfo* find(std::string_view name) const noexcept;

  /// The named tensor in its stored dtype, shape and strides, in fresh memory on the CPU: its elements and
  /// what lies between them in the file, shared with no other tensor.
  /// The first read of a storage goes over all of it and compares its checksum. Throws CheckpointError for a
  /// name that is not there or a wrong checksum, IoError when the file was changed.
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
