#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/json.h"
#include "core/json_cursor.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"
#include "io/files/checked_size.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

/// Throws unless no two neighbours of the sorted names are equal.
void check_unique(const std::vector<TensorInfo>& tensors, std::string_view where) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw CheckpointError(
      where,
      fmt::format("tensor '{}': the name occurs twice in the header; expected it once", printable(*twice)));
}

class HeaderParser {
 public:
  HeaderParser(std::string_view header, std::uint64_t file_size, std::string_view where)
      : cursor_(header, kLengthBytes),
        data_begin_(kLengthBytes + header.size()),
        file_size_(file_size),
        where_(where) {}

  SafetensorsHeader parse() {
    bool metadata_seen = false;
    cursor_.expect('{', "the header is not a JSON object:");
    if (!cursor_.consume('}')) {
      do {
        auto name = cursor_.string("tensor name", SafetensorsLimits::kNameBytes);
        cursor_.expect(':', "header");
        if (name == "__metadata__") {
          if (std::exchange(metadata_seen, true)) {
            throw CheckpointError(where_, "'__metadata__' occurs twice in the header; expected it once");
          }
          parse_metadata();
        } else {
          parse_tensor(std::move(name));
        }
      } while (cursor_.consume(','));
      cursor_.expect('}', "header");
    }
    cursor_.finish("after the header's object");
    check_unique(header_.tensors, where_);
    check_layout();
    return std::move(header_);
  }

 private:
  void parse_metadata() {
    cursor_.expect('{', "__metadata__");
    if (cursor_.consume('}')) return;
    auto bytes_left = SafetensorsLimits::kMetadataBytes;
    do {
      auto key = cursor_.string("__metadata__ key", SafetensorsLimits::kNameBytes);
      cursor_.expect(':', "__metadata__");
      auto value = cursor_.string(fmt::format("__metadata__ '{}'", printable(key)), bytes_left);
      bytes_left -= value.size();
      if (header_.metadata.size() == SafetensorsLimits::kMetadataEntries) {
        throw CheckpointError(where_,
                              fmt::format("__metadata__ has too many entries; expected at most {}, got more",
                                          SafetensorsLimits::kMetadataEntries));
      }
      const auto [place, added] = header_.metadata.emplace(std::move(key), std::move(value));
      if (!added) {
        throw CheckpointError(
            where_, fmt::format("__metadata__ '{}' occurs twice; expected it once", printable(place->first)));
      }
    } while (cursor_.consume(','));
    cursor_.expect('}', "__metadata__");
  }

  void parse_tensor(std::string name) {
    if (header_.tensors.size() == SafetensorsLimits::kTensors) {
      throw CheckpointError(where_,
                            fmt::format("the header has too many tensors; expected at most {}, got more",
                                        SafetensorsLimits::kTensors));
    }
    if (name.find('\0') != std::string::npos) {
      throw CheckpointError(where_,
                            fmt::format("tensor '{}': the name has a NUL; expected none", printable(name)));
    }
    TensorInfo tensor;
    tensor.name = std::move(name);
    try {
      parse_fields(tensor);
    } catch (const std::invalid_argument& error) {
      refuse(tensor, error.what());
    }
    header_.tensors.push_back(std::move(tensor));
  }

  void parse_fields(TensorInfo& tensor) {
    bool dtype_seen = false;
    bool shape_seen = false;
    bool offsets_seen = false;
    const auto once = [&](bool& seen, std::string_view field) {
      if (std::exchange(seen, true))
        refuse(tensor, fmt::format("'{}' occurs twice; expected it once", field));
    };
    cursor_.expect('{', "description");
    if (!cursor_.consume('}')) {
      do {
        const auto field = cursor_.string("field", SafetensorsLimits::kNameBytes);
        cursor_.expect(':', "description");
        if (field == "dtype") {
          once(dtype_seen, field);
          tensor.dtype_name = cursor_.string("dtype", SafetensorsLimits::kNameBytes);
        } else if (field == "shape") {
          once(shape_seen, field);
          tensor.shape = sizes("shape", SafetensorsLimits::kRank);
        } else if (field == "data_offsets") {
          once(offsets_seen, field);
          set_offsets(tensor, sizes("data_offsets", 2));
        } else {
          // A field unknown today may say how to read the data (strides, a scale): ignoring it could misread.
          refuse(tensor, fmt::format("unknown field '{}'; expected dtype, shape and data_offsets only",
                                     printable(field)));
        }
      } while (cursor_.consume(','));
      cursor_.expect('}', "description");
    }
    const auto missing = !dtype_seen     ? "dtype"
                         : !shape_seen   ? "shape"
                         : !offsets_seen ? "data_offsets"
                                         : nullptr;
    if (missing != nullptr) {
      refuse(tensor, fmt::format("'{}' is missing; expected dtype, shape and data_offsets", missing));
    }
    check_bytes(tensor);
  }

  /// An array of at most `limit` sizes. More are an error and are not stored: the array may be as long as the
  /// file.
  std::vector<std::int64_t> sizes(std::string_view field, std::size_t limit) {
    std::vector<std::int64_t> values;
    cursor_.expect('[', field);
    if (cursor_.consume(']')) return values;
    do {
      if (values.size() == limit) cursor_.fail(field, fmt::format("at most {} entries", limit));
      cursor_.position();
      values.push_back(cursor_.size(field));
    } while (cursor_.consume(','));
    cursor_.expect(']', field);
    return values;
  }

  void set_offsets(TensorInfo& tensor, const std::vector<std::int64_t>& offsets) const {
    if (offsets.size() != 2) {
      refuse(tensor, fmt::format("data_offsets {}; expected two entries, got {}", shape_text(offsets),
                                 offsets.size()));
    }
    if (offsets[0] > offsets[1]) {
      refuse(tensor, fmt::format("data_offsets {} end before they begin; expected begin <= end",
                                 shape_text(offsets)));
    }
    // Both are below 2^63 and the header below 2^27: no sum here can wrap.
    tensor.begin = data_begin_ + static_cast<std::uint64_t>(offsets[0]);
    tensor.end = data_begin_ + static_cast<std::uint64_t>(offsets[1]);
  }

  void check_bytes(TensorInfo& tensor) const {
    const auto* known = find_safetensors_dtype(tensor.dtype_name);
    tensor.dtype = known == nullptr ? at::ScalarType::Undefined : known->dtype;
    const auto bytes = checked_bytes(tensor.shape, known == nullptr ? 8 : known->bits);
    if (!bytes) {
      refuse(tensor, fmt::format("{} {} overflows; expected a whole number of bytes below 2^60",
                                 printable(tensor.dtype_name), shape_text(tensor.shape)));
    }
    // The size of an unknown dtype's element is anyone's guess; its data is still checked for overlaps and
    // holes.
    if (known == nullptr || *bytes == tensor.bytes()) return;
    refuse(tensor,
           fmt::format("data_offsets [{}, {}] hold another size than {} {}; expected {} bytes, got {}",
                       tensor.begin - data_begin_, tensor.end - data_begin_, tensor.dtype_name,
                       shape_text(tensor.shape), *bytes, tensor.bytes()));
  }

  void check_layout() {
    auto& tensors = header_.tensors;
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    auto end = data_begin_;
    const TensorInfo* before = nullptr;
    for (const auto& tensor : tensors) {
      if (tensor.begin != end) {
        const auto last =
            before == nullptr ? "the header" : fmt::format("tensor '{}'", printable(before->name));
        refuse(tensor, fmt::format("the data {} {}; expected it to begin at data offset {}, got {}",
                                   tensor.begin < end ? "overlaps that of" : "leaves a hole after", last,
                                   end - data_begin_, tensor.begin - data_begin_));
      }
      end = tensor.end;
      before = &tensor;
    }
    if (end == file_size_) return;
    throw CheckpointError(
        where_,
        fmt::format(
            "the file does not have the size its header describes; expected {} bytes, got {} ({} {}){}", end,
            file_size_, end > file_size_ ? end - file_size_ : file_size_ - end,
            end > file_size_ ? "missing" : "too many",
            end > file_size_ ? fmt::format("; tensor '{}' ends past the end; fetch the file again",
                                           printable(before->name))
                             : ""));
  }

  [[noreturn]] void refuse(const TensorInfo& tensor, std::string_view message) const {
    throw CheckpointError(where_, fmt::format("tensor '{}': {}", printable(tensor.name), message));
  }

  JsonCursor cursor_;
  std::uint64_t data_begin_;
  std::uint64_t file_size_;
  std::string_view where_;
  SafetensorsHeader header_;
};

}  // namespace

std::string supported_safetensors_dtypes() {
  std::string names;
  for (const auto& known : kSafetensorsDtypes) {
    if (known.dtype == at::ScalarType::Undefined) continue;
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

SafetensorsHeader parse_safetensors_header(std::string_view header, std::uint64_t file_size,
                                           std::string_view where) {
  if (header.size() > SafetensorsLimits::kHeaderBytes) {
    throw CheckpointError(where, fmt::format("the header is too large; expected at most {} bytes, got {}",
                                             SafetensorsLimits::kHeaderBytes, header.size()));
  }
  try {
    return HeaderParser(header, file_size, where).parse();
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(where, error.what());
  }
}

}  // namespace hooked
