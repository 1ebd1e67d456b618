#include "io/gguf/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/checked_size.h"
#include "io/files/foreign_kind.h"
#include "io/files/number_codes.h"

namespace hooked {
namespace {

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";

/// A file's bytes one after another, read in pieces.
class GgufCursor {
 public:
  GgufCursor(std::uint64_t size, ReadBytes read, std::string_view where)
      : size_(size), read_(std::move(read)), where_(where) {}

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t left() const noexcept { return size_ - position_; }

  /// The next `count` bytes, of `what`.
  std::string bytes(std::uint64_t count, std::string_view what) {
    check(count, 1, what);
    std::string taken(count, '\0');
    if (count > piece_.size()) {
      read_(position_, std::as_writable_bytes(std::span(taken)));
      piece_end_ = 0;  // the current piece ends before this offset
    } else {
      need(count);
      std::copy_n(piece_.data() + (position_ - piece_begin_), count, taken.data());
    }
    position_ += count;
    return taken;
  }

  std::uint64_t number(std::size_t width, std::string_view what) {
    return little_endian(bytes(width, what), 0, width);
  }

  /// Refuses more elements of `width` bytes than fit in the rest of the file or in a header, before anything
  /// of their size is allocated.
  void check(std::uint64_t count, std::size_t width, std::string_view what) const {
    const std::string_view unit = width == 1 ? "bytes" : "elements";
    if (count > left() / width) {
      refuse(
          fmt::format("{} points past the end of the file; expected at most {} {} at byte {}, got {}; "
                      "fetch the file again",
                      what, left() / width, unit, position_, count));
    }
    if (position_ + count * width <= GgufLimits::kHeaderBytes) return;
    refuse(
        fmt::format("{} makes the header too large; expected at most {} bytes in all, got {} {} at byte {}",
                    what, GgufLimits::kHeaderBytes, count, unit, position_));
  }

  [[noreturn]] void refuse(std::string_view message) const { throw CheckpointError(where_, message); }

 private:
  // Makes the piece hold the next `count` bytes, at most its size.
  void need(std::uint64_t count) {
    if (position_ >= piece_begin_ && position_ + count <= piece_end_) return;
    const auto length = std::min<std::uint64_t>(piece_.size(), left());
    read_(position_, std::as_writable_bytes(std::span(piece_).first(length)));
    piece_begin_ = position_;
    piece_end_ = position_ + length;
  }

  std::uint64_t size_;
  ReadBytes read_;
  std::string_view where_;
  std::uint64_t position_ = 0;
  std::array<char, 1 << 14> piece_{};
  std::uint64_t piece_begin_ = 0, piece_end_ = 0;
};

class GgufParser {
 public:
  GgufParser(std::uint64_t file_size, ReadBytes read, std::string_view where)
      : file_size_(file_size), cursor_(file_size, std::move(read), where) {}

  GgufHeader parse() {
    check_start();
    const std::uint64_t tensors = count("the number of tensors", GgufLimits::kTensors);
    const std::uint64_t entries = count("the number of metadata values", GgufLimits::kEntries);
    for (std::uint64_t i = 0; i < entries; ++i) parse_entry();
    find_alignment();
    for (std::uint64_t i = 0; i < tensors; ++i) parse_tensor();
    check_names();
    check_layout();
    return std::move(header_);
  }

 private:
  void check_start() {
    constexpr std::string_view kMagic = "GGUF";
    constexpr std::uint64_t kStart = 4 + 4 + 8 + 8;  // magic, version, two counts
    const std::string start = cursor_.left() < kStart ? std::string() : cursor_.bytes(4, "the magic");
    if (start.empty()) {
      cursor_.refuse(fmt::format("the file is too short; expected at least {} bytes of a GGUF header, got {}",
                                 kStart, file_size_));
    }
    if (start != kMagic) refuse_start(start);
    header_.version = static_cast<std::uint32_t>(cursor_.number(4, "the version"));
    if (header_.version == 2 || header_.version == 3) return;
    if (header_.version != 0 && (header_.version & 0xFFFFU) == 0) {
      cursor_.refuse(
          "the file is big-endian; expected little-endian numbers; turn it with gguf_convert_endian.py of "
          "the "
          "package gguf");
    }
    cursor_.refuse(fmt::format("GGUF version {} is not supported; expected 2 or 3; convert the model again",
                               header_.version));
  }

  [[noreturn]] void refuse_start(const std::string& start) {
    const std::uint64_t more = std::min<std::uint64_t>(kForeignKindBytes - start.size(), cursor_.left());
    const std::string kind = foreign_kind(start + cursor_.bytes(more, "the start"));
    cursor_.refuse(fmt::format("the file does not begin as a GGUF file; expected 'GGUF', got '{}'{}{}",
                               printable(start), kind.empty() ? "" : "; ", kind));
  }

  std::uint64_t count(std::string_view what, std::uint64_t most) {
    const std::uint64_t value = cursor_.number(8, what);
    if (value > most)
      cursor_.refuse(fmt::format("{} is too large; expected at most {}, got {}", what, most, value));
    return value;
  }

  // A key or a tensor's name.
  std::string name(std::string_view what) {
    const std::uint64_t at = cursor_.position();
    const std::uint64_t length = cursor_.number(8, what);
    if (length > GgufLimits::kNameBytes) {
      cursor_.refuse(fmt::format("{} at byte {} is too long; expected at most {} bytes, got {}", what, at,
                                 GgufLimits::kNameBytes, length));
    }
    std::string text = cursor_.bytes(length, what);
    if (text.empty()) cursor_.refuse(fmt::format("{} at byte {} is empty; expected a name", what, at));
    if (text.find('\0') != std::string::npos || first_invalid_byte(text)) {
      cursor_.refuse(fmt::format("{} at byte {} is not a name; expected UTF-8 without a NUL, got '{}'", what,
                                 at, printable(text)));
    }
    return text;
  }

  GgufType type(const std::string& what) {
    const std::uint64_t number = cursor_.number(4, what);
    if (number > static_cast<std::uint64_t>(GgufType::float64)) {
      cursor_.refuse(fmt::format("{} has an unknown type; expected 0 to {}, got {}", what,
                                 static_cast<unsigned>(GgufType::float64), number));
    }
    return static_cast<GgufType>(number);
  }

  void parse_entry() {
    std::string key = name("a metadata key");
    const std::string what = fmt::format("metadata '{}'", printable(key));
    GgufType kind = type(what);
    const bool array = kind == GgufType::array;
    if (array) kind = type(what);
    if (array && kind == GgufType::array) {
      cursor_.refuse(fmt::format("{} is an array of arrays; expected one of numbers, bools or texts", what));
    }
    const std::uint64_t elements = array ? cursor_.number(8, what) : 1;
    GgufValue value =
        kind == GgufType::text ? texts(what, array, elements) : numbers(what, kind, array, elements);
    if (!header_.metadata.emplace(std::move(key), std::move(value)).second)
      cursor_.refuse(fmt::format("{} occurs twice; expected it once", what));
  }

  GgufValue numbers(const std::string& what, GgufType kind, bool array, std::uint64_t elements) {
    const std::size_t width = gguf_type_bytes(kind);
    cursor_.check(elements, width, what);
    std::string bytes = cursor_.bytes(elements * width, what);
    if (kind == GgufType::boolean) {
      const auto bad = std::ranges::find_if(bytes, [](char c) { return c != 0 && c != 1; });
      if (bad != bytes.end()) {
        cursor_.refuse(fmt::format("{} is not a bool; expected 0 or 1, got {}", what,
                                   static_cast<unsigned>(static_cast<unsigned char>(*bad))));
      }
    }
    return GgufValue::numbers(kind, array, std::move(bytes));
  }

  GgufValue texts(const std::string& what, bool array, std::uint64_t elements) {
    constexpr std::size_t kLengthWidth = 8;  // of the length before each text
    cursor_.check(elements, kLengthWidth, what);
    std::string all;
    std::vector<std::uint64_t> ends;
    for (std::uint64_t i = 0; i < elements; ++i) {
      all += cursor_.bytes(cursor_.number(kLengthWidth, what), what);
      ends.push_back(all.size());
    }
    return GgufValue::texts(array, std::move(all), std::move(ends));
  }

  void find_alignment() {
    const GgufValue* value = find_value(header_.metadata, kAlignmentKey);
    if (value == nullptr) return;
    const auto got = value->is_array() ? std::nullopt : value->integer();
    if (!got || *got < 1 || static_cast<std::uint64_t>(*got) > GgufLimits::kAlignment ||
        (*got & (*got - 1)) != 0) {
      cursor_.refuse(fmt::format(
          "metadata '{}' is not an alignment; expected a power of two up to {}, got {}", kAlignmentKey,
          GgufLimits::kAlignment, got ? std::to_string(*got) : value->type_text()));
    }
    alignment_ = static_cast<std::uint64_t>(*got);
  }

  std::uint64_t aligned(std::uint64_t position) const {
    return (position + alignment_ - 1) / alignment_ * alignment_;
  }

  void parse_tensor() {
    GgufTensor tensor;
    TensorInfo& info = tensor.info;
    info.name = name("a tensor's name");
    const std::string what = fmt::format("tensor '{}'", printable(info.name));
    const std::uint64_t rank = cursor_.number(4, what);
    if (rank > GgufLimits::kRank) {
      cursor_.refuse(fmt::format("{} has too many dimensions; expected at most {}, got {}", what,
                                 GgufLimits::kRank, rank));
    }
    for (std::uint64_t i = 0; i < rank; ++i) {
      const std::uint64_t size = cursor_.number(8, what);
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        cursor_.refuse(fmt::format("{} has a dimension of {}; expected one below 2^63", what, size));
      info.shape.insert(info.shape.begin(), static_cast<std::int64_t>(size));
    }
    const auto number = static_cast<std::uint32_t>(cursor_.number(4, what));
    tensor.type = find_ggml_type(number);
    if (tensor.type == nullptr) {
      cursor_.refuse(fmt::format("{} is of type {}, which is not known; expected one of {}", what, number,
                                 supported_ggml_types()));
    }
    info.dtype = tensor.type->dtype;
    info.dtype_name = tensor.type->name;
    info.begin = cursor_.number(8, what);  // counted from the first tensor, for now
    info.end = info.begin + bytes_of(tensor, what);
    header_.tensors.push_back(std::move(tensor));
  }

  std::uint64_t bytes_of(const GgufTensor& tensor, const std::string& what) const {
    const GgmlType& stored = *tensor.type;
    std::vector<std::int64_t> blocks = tensor.info.shape;
    if (blocks.empty()) blocks.push_back(1);  // a single number
    if (blocks.back() % stored.elements != 0) {
      cursor_.refuse(fmt::format(
          "{} has rows that are not whole blocks of {}; expected a multiple of {} numbers, got {}", what,
          stored.name, stored.elements, blocks.back()));
    }
    blocks.back() /= stored.elements;
    const auto bytes = checked_bytes(blocks, stored.bytes * 8);
    // The largest offset is below 2^63 as well: the sum does not wrap.
    const auto numbers = checked_bytes(tensor.info.shape, 8);
    if (!bytes || !numbers) {
      cursor_.refuse(fmt::format("{} {} of {} overflows; expected a size below 2^60 bytes", what,
                                 shape_text(tensor.info.shape), stored.name));
    }
    if (tensor.info.begin > file_size_ || *bytes > file_size_) {
      cursor_.refuse(
          fmt::format("{} points past the end of the file; expected {} bytes from offset {} of the data "
                      "on, got a file of {}; fetch the file again",
                      what, *bytes, tensor.info.begin, file_size_));
    }
    return *bytes;
  }

  void check_names() const {
    std::set<std::string_view> names;
    for (const GgufTensor& tensor : header_.tensors) {
      if (names.insert(tensor.info.name).second) continue;
      cursor_.refuse(
          fmt::format("tensor '{}': the name occurs twice; expected it once", printable(tensor.info.name)));
    }
  }

  void check_layout() {
    const std::uint64_t header_end = cursor_.position(), data = aligned(header_end);
    auto& tensors = header_.tensors;
    std::ranges::stable_sort(tensors, [](const GgufTensor& a, const GgufTensor& b) {
      return std::pair(a.info.begin, a.info.end) < std::pair(b.info.begin, b.info.end);
    });
    std::uint64_t end = 0;  // of the data so far, counted from the first tensor
    const GgufTensor* before = nullptr;
    for (GgufTensor& tensor : tensors) {
      TensorInfo& info = tensor.info;
      const std::string what = fmt::format("tensor '{}'", printable(info.name));
      if (info.begin % alignment_ != 0) {
        cursor_.refuse(fmt::format("{} is not aligned; expected an offset that is a multiple of {}, got {}",
                                   what, alignment_, info.begin));
      }
      if (info.begin != aligned(end)) {
        const std::string last =
            before == nullptr ? "the header" : fmt::format("tensor '{}'", printable(before->info.name));
        cursor_.refuse(fmt::format("{}: the data {} {}; expected it to begin at data offset {}, got {}", what,
                                   info.begin < end ? "overlaps that of" : "leaves a hole after", last,
                                   aligned(end), info.begin));
      }
      end = info.end;
      before = &tensor;
    }
    const std::uint64_t least = before == nullptr ? header_end : data + end, most = data + aligned(end);
    if (file_size_ < least || file_size_ > most) {
      cursor_.refuse(
          fmt::format("the file does not have the size its header describes; expected {} bytes, got {} "
                      "({}){}",
                      most, file_size_, file_size_ < least ? "some are missing" : "there are too many",
                      file_size_ < least ? fmt::format("; tensor '{}' ends past the end; fetch the file "
                                                       "again",
                                                       printable(before->info.name))
                                         : ""));
    }
    for (GgufTensor& tensor : tensors) {
      tensor.info.begin += data;
      tensor.info.end += data;
    }
  }

  std::uint64_t file_size_;
  GgufCursor cursor_;
  std::uint64_t alignment_ = kDefaultAlignment;
  GgufHeader header_;
};

}  // namespace

GgufHeader read_gguf_header(std::uint64_t file_size, ReadBytes read, std::string_view where) {
  return GgufParser(file_size, std::move(read), where).parse();
}

}  // namespace hooked
