#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "io/files/checked_size.h"
#include "io/files/path_text.h"
#include "io/pickle/checked_record.h"
#include "io/pickle/pickle_document.h"
#include "io/pickle/zip_directory.h"
#include "io/pickle/zip_limits.h"
#include "io/safetensors/safetensors_format.h"
#include "io/tensors/tensor_file.h"

namespace hooked {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

/// The archive's one folder: what comes before `/data.pkl`.
std::string_view find_prefix(const ZipDirectory& directory, std::string_view where) {
  std::string_view prefix;
  for (const auto& entry : directory.entries()) {
    if (!entry.name.ends_with(kPickleName)) continue;
    const auto folder = entry.name.substr(0, entry.name.size() - kPickleName.size());
    if (folder.empty() || folder.find('/') != std::string_view::npos) continue;
    if (!prefix.empty()) {
      throw CheckpointError(where, fmt::format("the archive holds two checkpoints; expected one data.pkl, "
                                               "got those of '{}' and '{}'",
                                               printable(prefix), printable(folder)));
    }
    prefix = folder;
  }
  if (prefix.empty()) {
    throw CheckpointError(
        where,
        "the archive is not a checkpoint; expected a data.pkl in its one folder, as torch.save "
        "writes it, got none");
  }
  return prefix;
}

/// A small record as text, after comparing its checksum.
std::string read_record(const InputFile& file, const ZipDirectory& directory, const ZipEntry& entry,
                        std::uint64_t limit) {
  if (entry.bytes > limit) {
    throw CheckpointError(path_text(file.path()),
                          fmt::format("zip entry '{}' is too large; expected at most {} bytes, got {}",
                                      printable(entry.name), limit, entry.bytes));
  }
  std::string text(entry.bytes, '\0');
  const CheckedRecord record(entry.begin, entry.bytes,
                             directory.has_checksums() ? std::optional(entry.crc) : std::nullopt);
  record.read(file, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Whether the archive's numbers are big-endian.
bool is_big_endian(const InputFile& file, const ZipDirectory& directory, std::string_view prefix) {
  const auto* entry = directory.find(std::string(prefix) + "/byteorder");
  if (entry == nullptr) return false;  // not recorded before 2.1, and all files were little-endian
  const auto order = read_record(file, directory, *entry, 16);
  if (order != "little" && order != "big") {
    throw CheckpointError(
        path_text(file.path()),
        fmt::format("the byte order is unknown; expected 'little' or 'big', got '{}'", printable(order)));
  }
  return order == "big";
}

void reverse_each(std::span<std::byte> bytes, std::size_t width) {
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::reverse(bytes.data() + at, bytes.data() + at + width);
  }
}

/// True if the elements are contiguous, as those of a fresh tensor are.
bool is_dense(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  std::int64_t wanted = 1;
  for (auto axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != wanted) return false;
    wanted *= shape[axis];
  }
  return true;
}

class ZipTensors final : public TensorFile {
 public:
  ZipTensors(const InputFile& file, PickledNames names);

  at::Tensor read(const InputFile& file, std::size_t index) const override {
    return load(file, tensors_[index], layouts_[index], Amount::kWholeRecord);
  }
  at::Tensor read_rows(const InputFile& file, std::size_t index, Rows rows) const override;
  bool in_order(std::size_t index) const override {
    return is_dense(tensors_[index].shape, layouts_[index].strides);
  }
  /// The first read of a record goes over all of it and compares its checksum.
  void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                     const at::Tensor& into) const override;
  std::optional<std::uint64_t> begin_of_bytes(std::size_t) const override { return std::nullopt; }

 private:
  struct Layout {
    std::uint32_t record;
    std::vector<std::int64_t> strides;  ///< in elements
  };
  enum class Amount { kWholeRecord, kPart };

  void match_records(const InputFile& file, const PickleDocument& document, const ZipDirectory& directory,
                     std::string_view prefix);
  at::Tensor load(const InputFile& file, const TensorInfo& info, const Layout& layout, Amount amount) const;

  std::deque<CheckedRecord> records_;
  std::vector<Layout> layouts_;  // of tensors_, one each
  bool swap_bytes_ = false;
};

ZipTensors::ZipTensors(const InputFile& file, PickledNames names) {
  const auto where = path_text(file.path());
  const auto directory = ZipDirectory::read(file);
  const auto prefix = find_prefix(directory, where);
  swap_bytes_ = is_big_endian(file, directory, prefix);
  const auto* entry = directory.find(std::string(prefix) + std::string(kPickleName));
  const auto document =
      read_pickle(read_record(file, directory, *entry, ZipCheckpointLimits::kPickleBytes), where);
  auto found =
      names == PickledNames::paths ? find_tensor_paths(document, where) : find_state_dict(document, where);
  values_ = std::move(found.values);
  notes_ = std::move(found.notes);
  if (!directory.has_checksums()) {
    notes_.push_back(
        fmt::format("[{}] was written without checksums, so damage would not be noticed", where));
  }
  for (auto& [name, tensor] : found.entries) {
    const auto& row = document.tensors[tensor];
    const auto dtype = document.storages[row.storage].dtype;
    // Until the record is known, begin is counted from the record's first byte.
    tensors_.push_back({.name = std::move(name),
                        .dtype_name = std::string(safetensors_dtype_name(dtype)),
                        .dtype = dtype,
                        .shape = document.integers(row.sizes),
                        .begin = static_cast<std::uint64_t>(row.offset) * at::elementSize(dtype),
                        .end = 0});
    layouts_.push_back(
        {.record = static_cast<std::uint32_t>(row.storage), .strides = document.integers(row.strides)});
  }
  match_records(file, document, directory, prefix);
}

void ZipTensors::match_records(const InputFile& file, const PickleDocument& document,
                               const ZipDirectory& directory, std::string_view prefix) {
  // Storages that no tensor of the state dict uses are checked too: the file claims to contain them.
  std::vector<const ZipEntry*> entry_of(document.storages.size());
  std::string name;
  for (std::size_t i = 0; i < entry_of.size(); ++i) {
    const auto& storage = document.storages[i];
    name.assign(prefix).append("/data/").append(document.text(storage.key));
    entry_of[i] = directory.find(name);
    if (entry_of[i] == nullptr) {
      throw CheckpointError(path_text(file.path()),
                            fmt::format("the storage '{}' is missing; expected the zip entry '{}'; fetch the "
                                        "file again",
                                        printable(document.text(storage.key)), printable(name)));
    }
    const auto wanted = static_cast<std::uint64_t>(storage.elements) * at::elementSize(storage.dtype);
    if (entry_of[i]->bytes != wanted) {
      throw CheckpointError(
          path_text(file.path()),
          fmt::format("the storage '{}' does not have the size that data.pkl says; expected {} bytes for {} "
                      "elements of {}, got {}",
                      printable(name), wanted, storage.elements, safetensors_dtype_name(storage.dtype),
                      entry_of[i]->bytes));
    }
  }
  constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> record_of(directory.entries().size(), kNone);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto& info = tensors_[i];
    auto& layout = layouts_[i];
    const auto& entry = *entry_of[layout.record];
    auto& record = record_of[static_cast<std::size_t>(&entry - directory.entries().data())];
    if (record == kNone) {
      record = static_cast<std::uint32_t>(records_.size());
      records_.emplace_back(entry.begin, entry.bytes,
                            directory.has_checksums() ? std::optional(entry.crc) : std::nullopt);
      bytes_ += entry.bytes;
    }
    layout.record = record;
    const auto width = at::elementSize(info.dtype);
    info.begin += entry.begin;
    info.end = info.begin + *checked_span(info.shape, layout.strides) * width;
  }
}

at::Tensor ZipTensors::read_rows(const InputFile& file, std::size_t index, Rows rows) const {
  auto part = tensors_[index];
  check_rows(file, part, rows);
  const auto& layout = layouts_[index];
  const auto width = at::elementSize(part.dtype);
  part.shape[0] = rows.count;
  const auto span = *checked_span(part.shape, layout.strides);
  if (span > 0) part.begin += static_cast<std::uint64_t>(rows.first * layout.strides[0]) * width;
  part.end = part.begin + span * width;
  return load(file, part, layout, Amount::kPart);
}

void ZipTensors::read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                               const at::Tensor& into) const {
  const std::span bytes(static_cast<std::byte*>(into.data_ptr()), into.nbytes());
  if (bytes.empty()) return;
  const auto& record = records_[layouts_[index].record];
  const auto width = into.element_size();
  record.read(file, tensors_[index].begin - record.begin() + static_cast<std::uint64_t>(first) * width,
              bytes);
  if (swap_bytes_ && width > 1) reverse_each(bytes, width);
  if (into.scalar_type() == at::kBool) check_bools(file, tensors_[index], bytes);
}

at::Tensor ZipTensors::load(const InputFile& file, const TensorInfo& info, const Layout& layout,
                            Amount amount) const {
  const auto options = at::TensorOptions().dtype(info.dtype);
  if (info.bytes() == 0) return at::empty(info.shape, options);
  const auto width = at::elementSize(info.dtype);
  // Uninitialised, and never larger than the record: its elements were checked to be inside it.
  const auto dense = is_dense(info.shape, layout.strides);
  auto elements = dense ? at::empty(info.shape, options)
                        : at::empty({static_cast<std::int64_t>(info.bytes() / width)}, options);
  const std::span bytes(static_cast<std::byte*>(elements.data_ptr()), info.bytes());
  const auto& record = records_[layout.record];
  if (amount == Amount::kWholeRecord) {
    record.read(file, info.begin - record.begin(), bytes);
  } else {
    record.read_part(file, info.begin - record.begin(), bytes);
  }
  if (swap_bytes_ && width > 1) reverse_each(bytes, width);
  if (info.dtype == at::kBool) check_bools(file, info, bytes);
  if (dense) return elements;
  // The stride of an axis of size one may be any number; only harmless ones are passed on.
  auto strides = layout.strides;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (info.shape[axis] == 1) strides[axis] = 1;
  }
  return at::as_strided(elements, info.shape, strides);
}

}  // namespace

std::unique_ptr<TensorFile> describe_zip(const InputFile& file, PickledNames names) {
  return std::make_unique<ZipTensors>(file, names);
}

}  // namespace hooked
