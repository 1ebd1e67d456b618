#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooked/io/safetensors.h"
#include "io/gguf/gguf_value.h"
#include "io/tensors/tensor_file.h"

namespace hooked {

struct ShardIndex;

/// Limits on the files of a model folder. One more than a limit is refused.
struct CheckpointLimits {
  static constexpr std::uint64_t kIndexBytes = std::uint64_t{64} << 20;
  static constexpr std::size_t kShards = 10'000;
};

/// What happens to a model if shards that its index names, or files of a split, are missing.
enum class MissingShards : std::uint8_t {
  refused,
  left_out,  ///< the reader has the tensors of the others, and says which are missing
};

/// The tensors of a model folder under the names the files give them.
///
/// Reads the first of these files that the folder contains: `model.safetensors`,
/// `model.safetensors.index.json` with the shards it lists, `pytorch_model.bin`,
/// `pytorch_model.bin.index.json` with its shards, `final.pth` (TransformerLens), `ckpt.pt` (nanoGPT),
/// `model.pt`, `model.pth`, `pytorch_model.pt`. If there is none of them: the one file that ends in
/// `final.pth`; the only file of tensors, if it is a `.pt` or `.pth`; the only one in `checkpoints/`. notes()
/// says if the folder contains others of them, and if the file is a pickle. Pickles are read without running
/// anything: only what describes tensors and plain containers is understood, and a pickle that names anything
/// else is refused before that has any effect. The state dict is the top dict, or is one level below under
/// `model`, `state_dict` or `model_state_dict`; when all names begin with `_orig_mod.`, as after
/// torch.compile, this is left off. docs/decisions/0013-zip-checkpoints-by-our-own-reader.md has the reasons.
///
/// All headers are read and checked against the files' sizes when the reader is made. A tensor is read from
/// the shard that the index names; other disagreements of index and shards are in notes(). Tensor data is
/// read on demand, with a bounded number of files open. Shard names must be plain file names; the files may
/// be symbolic links. Reading is const and may happen in several threads at once.
class CheckpointReader {
 public:
  /// Throws IoError or CheckpointError; the error lists all missing shards.
  static CheckpointReader open(const std::filesystem::path& folder,
                               MissingShards when_missing = MissingShards::refused);

  /// Opens a single file: `.safetensors`, torch.save's `.bin`, `.pt`, `.pth` or `.ckpt`, or `.gguf`. The
  /// first of several GGUF files of one model (`-00001-of-00003.gguf`) opens all of them. `pickled` says how
  /// the tensors of torch.save's files are named. Throws IoError or CheckpointError.
  static CheckpointReader open_file(const std::filesystem::path& file,
                                    MissingShards when_missing = MissingShards::refused,
                                    PickledNames pickled = PickledNames::state_dict);

  /// The folder that was opened, or that the one file is in.
  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// All tensors' names, shard by shard: in the order of their data, or of a pickle's dict.
  const std::vector<std::string>& names() const noexcept { return names_; }

  bool contains(std::string_view name) const noexcept { return by_name_.contains(name); }

  /// dtype, shape and size of a tensor, without reading it. Throws CheckpointError with the nearest name.
  const TensorInfo& info(std::string_view name) const;

  /// The file that holds a tensor. Throws CheckpointError with the nearest name.
  const std::filesystem::path& file_of(std::string_view name) const;

  /// The tensor in its stored dtype, in fresh memory on the CPU. From a pickle it has its stored strides.
  /// Throws CheckpointError for an unknown name or unreadable dtype, IoError if a file was changed.
  at::Tensor read(std::string_view name) const;

  /// Rows `first` to `first + count` of the tensor's first axis, [count, ...]: read(name).narrow(0, ...)
  /// without reading the rest of the tensor, so that a large matrix can be handled in blocks. A pickle's
  /// checksum is compared only when all rows are read in order. Throws as read() does, and CheckpointError
  /// for rows that the tensor does not have.
  at::Tensor read_rows(std::string_view name, std::int64_t first, std::int64_t count) const;

  /// Whether the file has the tensor's elements contiguous and in row-major order: always in safetensors,
  /// where the dtype is known; mostly in pickles.
  bool in_order(std::string_view name) const;

  /// Fills `into`, a contiguous tensor on the CPU of the stored dtype, with the elements from number `first`
  /// on of a tensor that is in order: read() into the caller's memory, for any part of the tensor. The first
  /// read of a pickle's record goes over all of it and compares its checksum. Throws as read() does, and
  /// CheckpointError for an unsuitable `into` or elements that the tensor does not have.
  void read_elements(std::string_view name, std::int64_t first, const at::Tensor& into) const;

  /// The form of the codes in which a tensor is stored, or null.
  const CodedForm* form_of(std::string_view name) const;

  /// Fills `into` with the blocks of such a tensor from number `first` on. Throws CheckpointError for blocks
  /// that the tensor does not have, IoError if the file was changed.
  void read_codes(std::string_view name, std::int64_t first, std::span<CodedBlock> into) const;

  /// Whether a tensor's bytes can be read as stored, whatever its dtype: true for safetensors.
  bool has_bytes(std::string_view name) const;

  /// Fills `into` with the bytes from number `first` on of such a tensor, whose elements are contiguous and
  /// in row-major order. Throws CheckpointError for bytes that the tensor does not have, IoError if the file
  /// was changed.
  void read_bytes(std::string_view name, std::uint64_t first, std::span<std::byte> into) const;

  /// The files that contain its tensors.
  std::vector<std::filesystem::path> files() const;

  /// Names of the shards that were left out because they are missing.
  const std::vector<std::string>& missing_shards() const noexcept { return missing_; }

  /// The command that downloads those; empty if none is missing or no command is known.
  const std::string& fetch() const noexcept { return fetch_; }

  /// Throws CheckpointError listing all missing shards, if there are any.
  void require_whole() const;

  /// Tensors that are not where the index says, with a sentence about each.
  const std::map<std::string, std::string>& misplaced() const noexcept { return misplaced_; }

  /// Bytes of all shards' tensors, if an index states them.
  std::optional<std::uint64_t> stated_bytes() const noexcept { return stated_bytes_; }

  /// Bytes of all tensors as stored; memory that several tensors of a pickle share is counted once.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Plain values that a training script stored with the tensors in its one file, such as nanoGPT's
  /// `model_args`: a JSON object (PickledStateDict::values), empty for safetensors and for shards.
  const std::string& values() const noexcept { return values_; }

  /// What a GGUF file, or the first of several, says about its model; null for other formats. Lives as long
  /// as the reader.
  const GgufMetadata* gguf() const noexcept {
    return shards_.empty() ? nullptr : shards_.front().contents->gguf();
  }

  /// The file that these metadata come from, for a reader of GGUF files.
  const std::filesystem::path& gguf_file() const noexcept { return shards_.front().path; }

  /// The `__metadata__` of all files; the first file that has a key gives its value.
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

  /// What a user should know about these files, one sentence each; empty if there is nothing unusual.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  /// One file with tensors, closed, and what it said about them. It is reopened for its data, and must then
  /// be the same file.
  struct Shard {
    std::filesystem::path path;
    FileStamp stamp;
    std::unique_ptr<const TensorFile> contents;
  };

  /// The most recently read files by their shards: a bounded number, whatever the number of shards.
  struct OpenFiles {
    std::mutex mutex;
    std::vector<std::pair<std::size_t, std::shared_ptr<const InputFile>>> files;
  };

  /// Tensor `index` of a shard.
  struct TensorPlace {
    std::size_t shard;
    std::size_t index;
  };

  explicit CheckpointReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add_file(const std::filesystem::path& path, TensorFormat format,
                PickledNames pickled = PickledNames::state_dict);
  void add_only_file(const std::filesystem::path& path, TensorFormat format,
                     PickledNames pickled = PickledNames::state_dict);
  void add_pickle_note(const std::filesystem::path& path);
  void add_gguf_files(const std::filesystem::path& first, MissingShards when_missing);
  void add_shards(const std::filesystem::path& index_file, TensorFormat format, MissingShards when_missing);
  void miss(std::vector<std::string> names, const std::filesystem::path& file, std::string_view what,
            const std::vector<std::string>& all);
  void check_tensors_of_splits() const;
  void settle(const ShardIndex& index, const std::filesystem::path& index_file);
  void index_names();
  const TensorPlace& at(std::string_view name) const;
  const TensorInfo& info(const TensorPlace& stored) const;
  /// The open file of a tensor, shared with other threads that read from it. Throws IoError when it cannot be
  /// opened or was changed since.
  std::shared_ptr<const InputFile> opened(const TensorPlace& stored) const;

  std::filesystem::path folder_;
  std::vector<Shard> shards_;
  std::vector<TensorPlace> tensors_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views of names_
  std::map<std::string, std::string> metadata_;
  std::string values_ = "{}";
  std::vector<std::string> notes_;
  std::vector<std::string> missing_;              // shards
  std::map<std::string, std::string> misplaced_;  // tensors, and why they are not read
  std::string refusal_;                           // of a model that lacks them
  std::filesystem::path named_in_;                // the file that names them
  std::string fetch_;  // the command that downloads them; empty where none is known
  std::optional<std::uint64_t> stated_bytes_;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<OpenFiles> open_files_ = std::make_unique<OpenFiles>();
};

}  // namespace hooked
