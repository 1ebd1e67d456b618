#include "tests/support/sparse_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>

#include "io/safetensors/safetensors_format.h"

namespace hooked {
namespace {

std::uint64_t bytes_of(const SparseTensor& tensor) {
  std::uint64_t bytes = find_safetensors_dtype(tensor.dtype)->bits / 8;
  for (const auto size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

}  // namespace

std::vector<std::string> write_sparse_checkpoint(const std::filesystem::path& folder,
                                                 const std::vector<SparseTensor>& tensors,
                                                 std::size_t shards) {
  std::vector<std::string> names;
  std::string map;
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards));
    std::string header = "{";
    std::uint64_t end = 0;
    for (std::size_t i = tensors.size() * shard / shards; i < tensors.size() * (shard + 1) / shards; ++i) {
      const auto& tensor = tensors[i];
      const auto begin = end;
      end += bytes_of(tensor);
      header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                            header.size() > 1 ? "," : "", tensor.name, tensor.dtype,
                            fmt::join(tensor.shape, ","), begin, end);
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", tensor.name, names.back());
    }
    header += "}";
    std::string length;
    for (int i = 0; i < 8; ++i)
      length.push_back(static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xFF));
    std::ofstream(folder / names.back(), std::ios::binary) << length << header;
    std::filesystem::resize_file(folder / names.back(), 8 + header.size() + end);
    total += end;
  }
  std::ofstream(folder / "model.safetensors.index.json", std::ios::binary)
      << fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}})", total, map);
  return names;
}

}  // namespace hooked
