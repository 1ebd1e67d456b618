#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/io/safetensors.h"
#include "io/gguf/gguf_value.h"
#include "io/pickle/plain_value.h"
#include "io/tensors/tensor_file.h"

namespace hooked {

/// What the files of a model folder may be; each is refused one above.
struct CheckpointLimits {
  static constexpr std::uint64_t kIndexBytes = std::uint64_t{64} << 20;
  static constexpr std::size_t kShards = 10'000;
};

/// What becomes of a model where shards that its index names, or files of a split, are not there.
enum class MissingShards : std::uint8_t {
  refused,
  left_out,  ///< the reader has the tensors of the others, and says which are missing
};

/// The tensors of a model folder under the names the files give them.
///
/// Of these files of the folder the first that is there is read: `model.safetensors`,
/// `model.safetensors.index.json` with the shards it lists, `pytorch_model.bin`,
/// `pytorch_model.bin.index.json` with its shards, `final.pth` (TransformerLens), `ckpt.pt` (nanoGPT),
/// `model.pt`, `model.pth`, `pytorch_model.pt`. Where there is none of them: the one file that ends in
/// `final.pth`; the only file of tensors, if it is a `.pt` or `.pth`; the only one in `checkpoints/`. notes()
/// says when there are others of them, and when the file is a pickle; pickles are read without running
/// anything: of a pickle only what describes tensors and plain containers is understood, and whatever names
/// something else is refused before it has any effect. Its state dict is the top dict, or lies one level
/// below under `model`, `state_dict` or `model_state_dict`; when all names begin with `_orig_mod.`, as after
/// torch.compile, this is left off. docs/decisions/0013-zip-checkpoints-by-our-own-reader.md has the reasons.
///
/// All headers are read and checked against the files' sizes when the reader is made. A tensor is read from
/// the shard that the index names; what index and shards disagree about besides is in notes(). Tensor data is
/// read on demand, with a bounded number of files open. Shard names must be plain file names; the files may
/// be symbolic links. Reading is const and may happen in several threads at once.
class CheckpointReader {
 public:
  /// Throws IoError or CheckpointError; a missing shard is listed together with all the others.
  static CheckpointReader open(const std::filesystem::path& folder,
                               MissingShards when_missing = MissingShards::refused);

  /// One file by itself: `.safetensors`, torch.save's `.bin`, `.pt`, `.pth` or `.ckpt`, or `.gguf`. The first
  /// of several GGUF files of one model (`-00001-of-00003.gguf`) stands for all of them. `pickled` says what
  /// the tensors of torch.save's files are called. Throws IoError or CheckpointError.
  static CheckpointReader open_file(const std::filesystem::path& file,
                                    MissingShards when_missing = MissingShards::refused,
                                    PickledNames pickled = PickledNames::state_dict);

  CheckpointReader(CheckpointReader&& other) noexcept;
  CheckpointReader& operator=(CheckpointReader&& other) noexcept;
  ~CheckpointReader();

  /// The folder that was opened, or that the one file is in.
  const std::filesystem::path& folder() const noexcept;

  /// All tensors' names, shard by shard: in the order of their data, or of a pickle's dict.
  const std::vector<std::string>& names() const noexcept;

  bool contains(std::string_view name) const noexcept;

  /// dtype, shape and size of a tensor, without reading it. Throws CheckpointError with the nearest name.
  const TensorInfo& info(std::string_view name) const;

  /// The file that holds a tensor. Throws CheckpointError with the nearest name.
  const std::filesystem::path& file_of(std::string_view name) const;

  /// The tensor in its stored dtype, in fresh memory on the CPU. From a pickle it has its stored strides.
  /// Throws CheckpointError for a name or dtype that is not there to read, IoError when a file was changed.
  at::Tensor read(std::string_view name) const;

  /// Rows `first` to `first + count` of the tensor's first axis, [count, ...]: read(name).narrow(0, ...)
  /// without reading the rest of the tensor. So a large matrix can be handled in blocks.
  /// A pickle's checksum is compared only when all rows are read in order. Throws as read() does, and
  /// CheckpointError for rows that the tensor does not have.
  at::Tensor read_rows(std::string_view name, std::int64_t first, std::int64_t count) const;

  /// Whether the tensor's elements lie in the file one after another, the last axis' first: always in
  /// safetensors, where the dtype is known; mostly in pickles.
  bool in_order(std::string_view name) const;

  /// Fills `into`, a contiguous tensor on the CPU of the stored dtype, with the elements from number `first`
  /// on of a tensor that lies in order: read() without memory of its own, and as much of it as is wanted.
  /// The first read of a pickle's record goes over all of it and compares its checksum. Throws as read()
  /// does, and CheckpointError for another `into` or elements that the tensor does not have.
  void read_elements(std::string_view name, std::int64_t first, const at::Tensor& into) const;

  /// Whether a tensor's bytes can be read as they lie, whatever its dtype: in safetensors.
  bool has_bytes(std::string_view name) const;

  /// Fills `into` with the bytes from number `first` on of such a tensor, whose elements lie one after
  /// another, the last axis' first. Throws CheckpointError for bytes that the tensor does not have, IoError
  /// when the file was changed.
  void read_bytes(std::string_view name, std::uint64_t first, std::span<std::byte> into) const;

  /// The files that its tensors are in.
  std::vector<std::filesystem::path> files() const;

  /// Names of the shards that were left out because they are not there.
  const std::vector<std::string>& missing_shards() const noexcept;

  /// The command that downloads those; empty where none is missing, or none is known.
  const std::string& fetch() const noexcept;

  /// Throws CheckpointError with all of them, where some are missing.
  void require_whole() const;

  /// Tensors that are not where the index says, and a sentence about each.
  const std::map<std::string, std::string>& misplaced() const noexcept;

  /// Bytes of all shards' tensors, where an index says.
  std::optional<std::uint64_t> stated_bytes() const noexcept;

  /// Bytes of all tensors as stored; what several tensors of a pickle share is counted once.
  std::uint64_t bytes() const noexcept;

  /// Plain values that one file of a training script holds beside its tensors, such as nanoGPT's
  /// `model_args`: a dict, empty for safetensors and for shards.
  const PlainValue& values() const noexcept;

  /// What a GGUF file, or the first of several, says about its model; null for other formats. Lives as long
  /// as the reader.
  const GgufMetadata* gguf() const noexcept;

  /// The file that says it; of a reader of such files.
  const std::filesystem::path& gguf_file() const noexcept;

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
