#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/progress.h"
#include "hooked/io/file.h"

namespace HOOKED_EXPORT hooked {

/// Limits of the reader of safetensors files; one more is refused.
struct SafetensorsLimits {
  static constexpr std::uint64_t kHeaderBytes = 100'000'000;  ///< of the JSON text
  static constexpr std::size_t kTensors = 100'000;            ///< tensors of a file
  static constexpr std::size_t kMetadataEntries = 100'000;    ///< keys of `__metadata__`
  /// Bytes of all metadata values together.
  static constexpr std::size_t kMetadataBytes = 60'000'000;
  static constexpr std::size_t kRank = 8;          ///< dimensions of a tensor
  static constexpr std::size_t kNameBytes = 4096;  ///< bytes of a name
};

/// One tensor as a safetensors header describes it.
struct TensorInfo {
  std::string name;  ///< its key in the header
  /// The header's own word: `F32`, `BF16`, `F8_E4M3`, ….
  std::string dtype_name;
  /// Undefined if this engine has no such dtype: the file opens, but reading this tensor is refused.
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  /// First byte and one past the last, counted from the start of the file.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< one past the last byte

  /// Size of its data.
  std::uint64_t bytes() const noexcept { return end - begin; }
};

/// A validated header. `tensors` are in the order of their data in the file, names are unique, and their data
/// covers the rest of the file exactly, without overlaps or gaps.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< the content of `__metadata__`
};

/// Validates a safetensors header: `header` is the JSON text, that is bytes 8 to 8 + its size of a file of
/// `file_size` bytes, and `where` is the file's name for messages.
///
/// JSON as in RFC 8259, with white space allowed around the object. Duplicate names or fields, fields other
/// than dtype, shape and data_offsets, and everything beyond SafetensorsLimits are refused. Throws
/// CheckpointError that names the tensor, or the byte of the file, with the actual and the expected value.
/// Format: https://github.com/huggingface/safetensors (README, "Format").
SafetensorsHeader parse_safetensors_header(std::string_view header, std::uint64_t file_size,
                                           std::string_view where);

/// A safetensors file, checked as a whole when opened and read tensor by tensor.
///
/// Reading is const and may happen in several threads at once.
class SafetensorsFile {
 public:
  /// Opens and validates; reads the header only. Throws IoError (the system refused) or CheckpointError
  /// (content).
  static SafetensorsFile open(const std::filesystem::path& path);

  SafetensorsFile(SafetensorsFile&&) noexcept = default;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept = default;
  ~SafetensorsFile() = default;

  /// As it was opened.
  const std::filesystem::path& path() const& noexcept { return file_.path(); }
  /// The same of a temporary, as a copy.
  std::filesystem::path path() const&& { return file_.path(); }

  /// The open file.
  const InputFile& file() const& noexcept { return file_; }
  void file() const&& = delete;  ///< it would be closed with the temporary

  /// All tensors, in the order of their data in the file.
  const std::vector<TensorInfo>& tensors() const& noexcept { return header_.tensors; }
  /// The same of a temporary, as a copy.
  std::vector<TensorInfo> tensors() const&& { return header_.tensors; }

  /// The file's `__metadata__`.
  const std::map<std::string, std::string>& metadata() const& noexcept { return header_.metadata; }
  /// The same of a temporary, as a copy.
  std::map<std::string, std::string> metadata() const&& { return header_.metadata; }

  /// The tensor of that name, or null. Valid as long as this object.
  const TensorInfo* find(std::string_view name) const& noexcept;
  /// The same of a temporary, as a copy.
  std::optional<TensorInfo> find(std::string_view name) const&&;

  /// The named tensor in its stored dtype and shape, in fresh memory on the CPU, bit for bit. Throws
  /// CheckpointError for an unknown name or a dtype that cannot be read, IoError if the file was changed.
  at::Tensor read(std::string_view name) const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header);

  InputFile file_;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;  // indices of header_.tensors in the order of their names
};

/// Reads the tensor that `info` describes from `file`, as SafetensorsFile::read does.
at::Tensor read_safetensor(const InputFile& file, const TensorInfo& info);

/// All tensors of a file by their names, as SafetensorsFile::read gives them. (SafetensorsFile reads single
/// ones, and the metadata.) Throws as SafetensorsFile::open and read.
std::map<std::string, at::Tensor> load_safetensors(const std::filesystem::path& path);

/// Everything about a file to be written except its tensors. For designated initialisers.
struct SafetensorsOptions {
  std::map<std::string, std::string> metadata = {};  ///< the header's `__metadata__`
  Progress progress = nullptr;                       ///< bytes of tensors written
  /// The first tensor begins at a multiple of this many bytes of the file; itself a multiple of 8.
  std::size_t alignment = 8;
};

/// Writes a safetensors file: all of it or, after an error, nothing (what was at `path` stays).
///
/// Tensors may be strided, overlap each other or be on any device. Data is aligned to 8 bytes: wider dtypes
/// come first, equal widths in the order given. (Python's transformers wants `{"format", "pt"}` in the
/// metadata.) Throws ShapeError for an undefined, non-strided or unsupported tensor, CheckpointError for a
/// name that is invalid, given twice or `__metadata__`, and IoError.
void save_safetensors(const std::filesystem::path& path,
                      const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                      const SafetensorsOptions& options = {});

}  // namespace hooked
