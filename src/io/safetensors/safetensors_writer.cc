#include <c10/core/Layout.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"
#include "io/files/path_text.h"
#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

constexpr std::size_t kWrittenAtOnce = std::size_t{64} << 20;  // bytes, between two reports of progress

void check_text(std::string_view text, std::string_view what, std::string_view where) {
  if (text.size() > SafetensorsLimits::kNameBytes) {
    throw CheckpointError(
        where, fmt::format("{} '{}…' is too long; expected at most {} bytes, got {}", what,
                           printable(text.substr(0, 48)), SafetensorsLimits::kNameBytes, text.size()));
  }
  if (text.find('\0') != std::string_view::npos || first_invalid_byte(text)) {
    throw CheckpointError(where, fmt::format("{} '{}'; expected UTF-8 without NUL", what, printable(text)));
  }
}

void check_tensor(std::string_view name, const at::Tensor& tensor, std::string_view where) {
  const auto refuse = [&](std::string_view message) {
    throw ShapeError(where, fmt::format("tensor '{}': {}", printable(name), message));
  };
  if (!tensor.defined()) refuse("it is undefined; expected a tensor");
  if (tensor.layout() != at::kStrided) refuse("the layout is sparse; expected a strided tensor");
  if (safetensors_dtype_name(tensor.scalar_type()).empty()) {
    refuse(fmt::format("the dtype cannot be stored; expected one of {}, got {}",
                       supported_safetensors_dtypes(), dtype_text(tensor.scalar_type())));
  }
  if (static_cast<std::size_t>(tensor.dim()) > SafetensorsLimits::kRank) {
    refuse(fmt::format("the rank is too high; expected at most {}, got {}", SafetensorsLimits::kRank,
                       tensor.dim()));
  }
}

void check_all(const SafetensorsList& tensors, const std::map<std::string, std::string>& metadata,
               std::string_view where) {
  if (tensors.size() > SafetensorsLimits::kTensors || metadata.size() > SafetensorsLimits::kMetadataEntries) {
    throw CheckpointError(
        where, fmt::format("too many tensors or metadata entries; expected at most {}, got {} and {}",
                           SafetensorsLimits::kTensors, tensors.size(), metadata.size()));
  }
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    check_text(name, "tensor name", where);
    check_tensor(name, tensor, where);
    if (name == "__metadata__") {
      throw CheckpointError(where, "tensor name '__metadata__' belongs to the format; expected another");
    }
    if (!names.insert(name).second) {
      throw CheckpointError(where,
                            fmt::format("tensor '{}' is given twice; expected it once", printable(name)));
    }
  }
  std::size_t metadata_bytes = 0;
  for (const auto& [key, value] : metadata) {
    metadata_bytes += value.size();
    if (metadata_bytes > SafetensorsLimits::kMetadataBytes) {
      throw CheckpointError(
          where, fmt::format("metadata '{}' makes the values too long; expected at most {} bytes in all, "
                             "got more",
                             printable(key), SafetensorsLimits::kMetadataBytes));
    }
    check_text(key, "metadata key", where);
    if (first_invalid_byte(value)) {
      throw CheckpointError(where, fmt::format("metadata '{}'; expected UTF-8 as its value", printable(key)));
    }
  }
}

/// Indices of `tensors` in the order of their data: wider elements first, so that each begins at a multiple
/// of its element's size.
std::vector<std::size_t> data_order(const SafetensorsList& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return tensors[a].second.element_size() > tensors[b].second.element_size();
  });
  return order;
}

std::string json_string(const std::string& text) { return Json(text).dump(); }

// Padded so that what follows it begins at a multiple of `alignment`.
std::string header_text(const SafetensorsList& tensors, std::span<const std::size_t> order,
                        const std::map<std::string, std::string>& metadata, std::size_t alignment) {
  std::string text = "{";
  const auto separate = [&] {
    if (text.back() != '{') text += ',';
  };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      separate();
      text += json_string(key) + ':' + json_string(value);
    }
    text += '}';
  }
  std::uint64_t begin = 0;
  for (const auto index : order) {
    const auto& [name, tensor] = tensors[index];
    const auto end = begin + static_cast<std::uint64_t>(tensor.nbytes());
    separate();
    text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", json_string(name),
                        safetensors_dtype_name(tensor.scalar_type()), shape_text(tensor.sizes()), begin, end);
    begin = end;
  }
  text += '}';
  const std::size_t end = kLengthBytes + text.size();
  text.append((alignment - end % alignment) % alignment, ' ');  // the format pads with blanks
  return text;
}

}  // namespace

void write_safetensors(AtomicFile& file, const SafetensorsList& tensors, const SafetensorsOptions& options) {
  write_safetensors(
      file, tensors, [&](std::size_t number) { return tensors[number].second; }, options);
}

void write_safetensors(AtomicFile& file, const SafetensorsList& tensors,
                       const std::function<at::Tensor(std::size_t number)>& read,
                       const SafetensorsOptions& options) {
  const auto where = path_text(file.path());
  check_all(tensors, options.metadata, where);
  const auto order = data_order(tensors);
  const auto header = header_text(tensors, order, options.metadata, options.alignment);
  if (header.size() > SafetensorsLimits::kHeaderBytes) {
    throw CheckpointError(where,
                          fmt::format("the header would be too large; expected at most {} bytes, got {}",
                                      SafetensorsLimits::kHeaderBytes, header.size()));
  }
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));

  file.write(length);
  file.write(std::as_bytes(std::span(header)));
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) total += tensor.nbytes();
  std::uint64_t written = 0;
  for (const auto index : order) {
    // One tensor at a time: a strided or device tensor costs one copy of itself, never of the whole file.
    const at::Tensor& shape = tensors[index].second;
    const at::Tensor values = read(index);
    if (values.sizes() != shape.sizes() || values.scalar_type() != shape.scalar_type())
      throw std::logic_error("a tensor that is not as the header says");
    const auto flat = values.detach().to(at::kCPU).resolve_neg().contiguous();
    std::span bytes(static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes());
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kWrittenAtOnce));
      file.write(piece);
      bytes = bytes.subspan(piece.size());
      written += piece.size();
      if (options.progress) options.progress(written, total);
    }
  }
}

void save_safetensors(const std::filesystem::path& path, const SafetensorsList& tensors,
                      const SafetensorsOptions& options) {
  AtomicFile file(path);
  write_safetensors(file, tensors, options);
  file.commit();
}

}  // namespace hooked
