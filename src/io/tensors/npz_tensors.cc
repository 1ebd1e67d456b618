#include "io/tensors/npz_tensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/checked_size.h"
#include "io/files/number_codes.h"
#include "io/files/path_text.h"
#include "io/pickle/checked_record.h"
#include "io/pickle/zip_directory.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

constexpr std::string_view kArrayEnding = ".npy";
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kFixedBytes = 8;  // magic and version
constexpr std::uint64_t kHeaderBytes = 65'536;

struct ArrayDtype {
  std::string_view name;
  at::ScalarType dtype;
};
constexpr std::array<ArrayDtype, 9> kDtypes = {{{"<f4", at::kFloat},
                                                {"<f8", at::kDouble},
                                                {"<f2", at::kHalf},
                                                {"<i4", at::kInt},
                                                {"<i8", at::kLong},
                                                {"<i2", at::kShort},
                                                {"|i1", at::kChar},
                                                {"|u1", at::kByte},
                                                {"|b1", at::kBool}}};

/// What the header of an array says.
struct ArrayHeader {
  std::string descr;
  bool column_major = false;
  std::vector<std::int64_t> shape;
};

/// Reads the header, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  /// Nothing if it is not of that form.
  std::optional<ArrayHeader> read() {
    ArrayHeader header;
    bool has[3] = {};
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const auto key = text();
      if (!key || !take(':')) return std::nullopt;
      const std::size_t which = *key == "descr" ? 0 : *key == "fortran_order" ? 1 : *key == "shape" ? 2 : 3;
      if (which == 3 || std::exchange(has[which], true)) return std::nullopt;
      const bool read = which == 0   ? text_into(header.descr)
                        : which == 1 ? boolean(header.column_major)
                                     : sizes(header.shape);
      if (!read) return std::nullopt;
      if (!take(',')) {
        if (!take('}')) return std::nullopt;
        break;
      }
    }
    skip();
    return rest_.empty() && has[0] && has[1] && has[2] ? std::optional(std::move(header)) : std::nullopt;
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  bool take(char wanted) {
    skip();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::string> text() {
    if (!take('\'')) return std::nullopt;
    const auto end = rest_.find('\'');
    if (end == std::string_view::npos) return std::nullopt;
    std::string found(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return found;
  }
  bool text_into(std::string& into) {
    auto found = text();
    if (!found) return false;
    into = *std::move(found);
    return true;
  }
  bool boolean(bool& into) {
    skip();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      into = value;
      return true;
    }
    return false;
  }
  bool sizes(std::vector<std::int64_t>& into) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0 || into.size() == SafetensorsLimits::kRank) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      into.push_back(size);
      if (!take(',')) return take(')');
    }
    return true;
  }

  std::string_view rest_;
};

class NpzTensors final : public TensorFile {
 public:
  explicit NpzTensors(const InputFile& file) : directory_(ZipDirectory::read(file)) {
    for (const ZipEntry& entry : directory_.entries()) add(file, entry);
  }

  at::Tensor read(const InputFile& file, std::size_t index) const override {
    if (!column_major_[index]) return TensorFile::read(file, index);
    std::vector<std::int64_t> shape = tensors_[index].shape;
    std::ranges::reverse(shape);
    const at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(tensors_[index].dtype));
    read_elements(file, index, 0, tensor);
    std::vector<std::int64_t> axes(shape.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(axes.size() - 1 - i);
    return tensor.permute(axes);
  }

  at::Tensor read_rows(const InputFile& file, std::size_t index, Rows rows) const override {
    if (!column_major_[index]) return TensorFile::read_rows(file, index, rows);
    check_rows(file, tensors_[index], rows);
    return read(file, index).narrow(0, rows.first, rows.count);
  }

  bool in_order(std::size_t index) const override { return !column_major_[index]; }

  void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                     const at::Tensor& into) const override {
    const std::span bytes(static_cast<std::byte*>(into.data_ptr()), into.nbytes());
    if (bytes.empty()) return;
    const CheckedRecord& record = records_[index];
    record.read(
        file,
        tensors_[index].begin - record.begin() + static_cast<std::uint64_t>(first) * into.element_size(),
        bytes);
    if (into.scalar_type() == at::kBool) check_bools(file, tensors_[index], bytes);
  }

 private:
  void add(const InputFile& file, const ZipEntry& entry) {
    const auto refuse = [&](std::string_view what, std::string_view wanted, const std::string& got) {
      throw CheckpointError(path_text(file.path()), fmt::format("zip entry '{}': {}; expected {}, got {}",
                                                                printable(entry.name), what, wanted, got));
    };
    if (!entry.name.ends_with(kArrayEnding))
      refuse("it is no array", "a name that ends in .npy", "another name");
    const auto bytes_at = [&](std::uint64_t offset, std::uint64_t bytes) {
      std::string text(bytes, '\0');
      file.read(entry.begin + offset, std::as_writable_bytes(std::span(text)));
      return text;
    };
    const std::string start = entry.bytes < kFixedBytes + 4 ? std::string() : bytes_at(0, kFixedBytes + 4);
    if (!start.starts_with(kMagic)) refuse("it is no array", "the first bytes of a .npy file", "others");
    const auto version = static_cast<unsigned char>(start[6]);
    if (version < 1 || version > 3) refuse("its version is not known", "1 to 3", std::to_string(version));
    const std::uint64_t width = version == 1 ? 2 : 4;
    const std::uint64_t length = little_endian(start, kFixedBytes, width);
    if (length > kHeaderBytes || length > entry.bytes - kFixedBytes - width)
      refuse("its header is longer than the entry or than any", fmt::format("at most {} bytes", kHeaderBytes),
             std::to_string(length));
    const std::string text = bytes_at(kFixedBytes + width, length);
    const auto header = HeaderReader(text).read();
    if (!header) refuse("its header is malformed", "descr, fortran_order and shape", printable(text));
    const auto dtype = std::ranges::find(kDtypes, header->descr, &ArrayDtype::name);
    if (dtype == kDtypes.end()) {
      refuse("its numbers cannot be read", "floating-point numbers or integers with the lowest byte first",
             fmt::format("'{}'", printable(header->descr)));
    }
    TensorInfo info{.name = std::string(entry.name.substr(0, entry.name.size() - kArrayEnding.size())),
                    .dtype_name = header->descr,
                    .dtype = dtype->dtype,
                    .shape = header->shape};
    const auto bytes = checked_bytes(info.shape, at::elementSize(info.dtype) * 8);
    const std::uint64_t data = kFixedBytes + width + length;
    if (!bytes || *bytes != entry.bytes - data) {
      refuse(fmt::format("{} of {} does not fill it", shape_text(info.shape), dtype_text(info.dtype)),
             bytes ? fmt::format("{} bytes of numbers", *bytes) : "sizes that fit memory",
             std::to_string(entry.bytes - data));
    }
    info.begin = entry.begin + data;
    info.end = entry.end();
    bytes_ += info.bytes();
    tensors_.push_back(std::move(info));
    column_major_.push_back(header->column_major && header->shape.size() > 1);
    records_.emplace_back(entry.begin, entry.bytes,
                          directory_.has_checksums() ? std::optional(entry.crc) : std::nullopt);
  }

  ZipDirectory directory_;
  std::deque<CheckedRecord> records_;  // they hold a lock, and do not move
  std::vector<bool> column_major_;
};

}  // namespace

std::unique_ptr<TensorFile> describe_npz(const InputFile& file) { return std::make_unique<NpzTensors>(file); }

}  // namespace hooked
