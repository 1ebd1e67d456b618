#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/coded_form.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "io/gguf/gguf_value.h"

namespace hooked {

/// Rows of a tensor's first axis.
struct Rows {
  std::int64_t first;
  std::int64_t count;
};

/// The tensors and values of a file, in whatever format. It keeps no file open: data is read from a file that
/// the caller has opened, which must be the file that was described. What is not overridden is for formats
/// that have every tensor's elements in row-major order.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

  /// Plain values stored with the tensors, as a JSON object (PickledStateDict::values).
  const std::string& values() const noexcept { return values_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// Bytes of the tensors; bytes that several share are counted once.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Tensor `index` in fresh memory on the CPU. Throws CheckpointError or IoError.
  virtual at::Tensor read(const InputFile& file, std::size_t index) const;

  /// Some rows of tensor `index`: [count, ...]. Throws CheckpointError (also for rows that do not exist) or
  /// IoError.
  virtual at::Tensor read_rows(const InputFile& file, std::size_t index, Rows rows) const;

  /// Whether the elements of tensor `index` are contiguous in the file and in row-major order.
  virtual bool in_order(std::size_t index) const;

  /// Fills `into`, contiguous on the CPU and of the tensor's dtype, with its elements from `first` on, for a
  /// tensor that is in order. Throws CheckpointError or IoError.
  virtual void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                             const at::Tensor& into) const = 0;

  /// The form of the codes in which tensor `index` is stored, or null. Its elements are in order then, and
  /// its rows are whole blocks.
  virtual const CodedForm* form(std::size_t /*index*/) const { return nullptr; }

  /// Fills `into` with the blocks of such a tensor from number `first` on. Throws IoError.
  virtual void read_codes(const InputFile& /*file*/, std::size_t /*index*/, std::int64_t /*first*/,
                          std::span<CodedBlock> /*into*/) const {}

  /// Where in the file the bytes of tensor `index` begin, whatever its dtype, if its elements are there in
  /// order; nothing in formats whose dtypes are all known.
  virtual std::optional<std::uint64_t> begin_of_bytes(std::size_t index) const;

  /// What a GGUF file says about its model; null in other formats.
  virtual const GgufMetadata* gguf() const noexcept { return nullptr; }

 protected:
  TensorFile() = default;

  /// Throws CheckpointError about a tensor whose numbers this engine cannot read.
  virtual void require_readable(const InputFile& /*file*/, const TensorInfo& /*info*/) const {}

  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
  std::string values_ = "{}";
  std::vector<std::string> notes_;
  std::uint64_t bytes_ = 0;
};

/// Formats that tensors are read from.
enum class TensorFormat { kSafetensors, kZip, kGguf };

/// How the tensors of a pickle are named.
enum class PickledNames : std::uint8_t {
  state_dict,  ///< those of a state dict, which is the top dict or one below it
  paths,       ///< all in the top dict and in dicts inside it, by the keys on the way
};

/// Reads and checks what `file` says about its tensors. Throws CheckpointError or IoError.
std::unique_ptr<TensorFile> describe_tensors(const InputFile& file, TensorFormat format,
                                             PickledNames names = PickledNames::state_dict);

/// The same for GGUF files. Numbers that are stored in a few bits each are read as float32: their blocks are
/// decoded on demand.
std::unique_ptr<TensorFile> describe_gguf(const InputFile& file);

/// The same for a checkpoint as torch.save writes it: strided views of records of a zip archive.
std::unique_ptr<TensorFile> describe_zip(const InputFile& file, PickledNames names);

/// Throws CheckpointError about `file` unless the tensor has these rows.
void check_rows(const InputFile& file, const TensorInfo& info, Rows rows);

}  // namespace hooked
