#include "loading/load/described_files.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "loading/config/tensor_names.h"

namespace hooked {
namespace {

// Endings of weight files of frameworks and runtimes.
constexpr std::array<std::string_view, 10> kWeightEndings = {
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".npz"};

bool holds_weights(std::string_view name) {
  return std::ranges::any_of(kWeightEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Whether several numbers share a block of bytes, as in a GGUF file's quantised types.
bool in_blocks(const TensorInfo& info) {
  if (info.dtype == at::ScalarType::Undefined) return false;
  std::uint64_t bytes = c10::elementSize(info.dtype);
  for (const std::int64_t size : info.shape) bytes *= static_cast<std::uint64_t>(size);
  return info.bytes() != bytes;
}

// Number of tensors, and their bytes.
struct Size {
  std::int64_t tensors = 0, bytes = 0;
  void add(const TensorInfo& info) {
    ++tensors;
    bytes += static_cast<std::int64_t>(info.bytes());
  }
};

}  // namespace

std::vector<StoredTensors> stored_tensors(const CheckpointReader& reader, const SourceTensors& source,
                                          std::string_view form) {
  std::map<std::pair<std::string, std::string>, Size> sizes;  // by dtype and form
  for (const std::string& name : reader.names()) {
    const TensorInfo& info = reader.info(name);
    const auto found = source.find(name);
    const bool as_it_is =
        found != source.end() && found->second.dtype == info.dtype && info.dtype != at::ScalarType::Undefined;
    const std::string own(in_blocks(info) ? "blocks" : as_it_is || form.empty() ? "numbers" : form);
    sizes[{info.dtype_name, own}].add(info);
  }
  std::vector<StoredTensors> rows;
  for (const auto& [key, size] : sizes)
    rows.push_back({.dtype = key.first, .form = key.second, .tensors = size.tensors, .bytes = size.bytes});
  std::ranges::stable_sort(rows, std::ranges::greater(), &StoredTensors::bytes);
  return rows;
}

std::vector<UnreadPart> unread_parts(const CheckpointReader& reader, const Family& family) {
  std::map<std::string_view, Size> sizes;
  for (const std::string& name : reader.names()) {
    if (const auto part = other_model_of(name, family)) sizes[*part].add(reader.info(name));
  }
  std::vector<UnreadPart> parts;
  for (const auto& [name, size] : sizes)
    parts.push_back({.name = std::string(name), .tensors = size.tensors, .bytes = size.bytes});
  return parts;
}

std::vector<std::string> ignored_files(const std::filesystem::path& folder,
                                       const std::vector<std::filesystem::path>& read) {
  std::set<std::filesystem::path> known;
  for (const auto& file : read) known.insert(file.lexically_normal());
  std::vector<std::string> names;
  std::error_code stopped;
  using Folders = std::filesystem::recursive_directory_iterator;
  for (Folders at(folder, std::filesystem::directory_options::skip_permission_denied, stopped), end;
       !stopped && at != end; at.increment(stopped)) {
    if (at.depth() > 0) at.disable_recursion_pending();
    std::error_code ignored;
    const auto& path = at->path();
    if (!holds_weights(path.native()) || at->is_directory(ignored) || known.contains(path.lexically_normal()))
      continue;
    names.push_back(path.lexically_relative(folder).native());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace hooked
