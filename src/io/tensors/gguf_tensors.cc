#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "io/files/path_text.h"
#include "io/gguf/gguf_header.h"
#include "io/tensors/tensor_file.h"

namespace hooked {
namespace {

constexpr std::uint64_t kDecodedAtOnce = std::uint64_t{1} << 20;  // bytes of blocks

// The numbers `first` to `first + count` of a tensor whose blocks begin at byte `begin` of the file.
void read_blocks(const InputFile& file, const GgmlType& type, std::uint64_t begin, std::int64_t first,
                 std::int64_t count, float* into) {
  const std::int64_t size = type.elements, end = first + count;
  const std::int64_t last_block = (end + size - 1) / size;
  const auto at_once = static_cast<std::int64_t>(kDecodedAtOnce / type.bytes);
  std::vector<std::byte> bytes;
  std::array<float, 256> part{};  // of a block that is only partly wanted
  for (std::int64_t block = first / size; block < last_block;) {
    const std::int64_t blocks = std::min(at_once, last_block - block);
    bytes.resize(static_cast<std::size_t>(blocks) * type.bytes);
    file.read(begin + static_cast<std::uint64_t>(block) * type.bytes, bytes);
    for (std::int64_t i = 0; i < blocks; ++i, ++block) {
      const std::byte* stored = bytes.data() + static_cast<std::uint64_t>(i) * type.bytes;
      const std::int64_t from = block * size;  // position of the block's first number among all
      if (from >= first && from + size <= end) {
        type.decode(stored, into + (from - first));
        continue;
      }
      type.decode(stored, part.data());
      const std::int64_t wanted = std::max(from, first), wanted_end = std::min(from + size, end);
      std::copy(part.begin() + (wanted - from), part.begin() + (wanted_end - from), into + (wanted - first));
    }
  }
}

class GgufTensors final : public TensorFile {
 public:
  explicit GgufTensors(const InputFile& file) {
    GgufHeader header = read_gguf_header(
        file.size(), [&](std::uint64_t offset, std::span<std::byte> into) { file.read(offset, into); },
        path_text(file.path()));
    gguf_ = std::move(header.metadata);
    for (GgufTensor& tensor : header.tensors) {
      bytes_ += tensor.info.bytes();
      types_.push_back(tensor.type);
      tensors_.push_back(std::move(tensor.info));
    }
  }

  void read_elements(const InputFile& file, std::size_t index, std::int64_t first,
                     const at::Tensor& into) const override {
    const GgmlType& type = *types_[index];
    const std::uint64_t begin = tensors_[index].begin;
    if (into.numel() == 0) return;
    if (type.form != nullptr)
      return read_blocks(file, type, begin, first, into.numel(), static_cast<float*>(into.data_ptr()));
    file.read(begin + static_cast<std::uint64_t>(first) * type.bytes,
              std::span(static_cast<std::byte*>(into.data_ptr()), into.nbytes()));
  }

  const CodedForm* form(std::size_t index) const override { return types_[index]->form; }

  void read_codes(const InputFile& file, std::size_t index, std::int64_t first,
                  std::span<CodedBlock> into) const override {
    const GgmlType& type = *types_[index];
    std::vector<std::byte> bytes(into.size() * type.bytes);
    file.read(tensors_[index].begin + static_cast<std::uint64_t>(first) * type.bytes, bytes);
    for (std::size_t i = 0; i < into.size(); ++i) type.unpack(bytes.data() + i * type.bytes, into[i]);
  }

  const GgufMetadata* gguf() const noexcept override { return &gguf_; }

 private:
  void require_readable(const InputFile& file, const TensorInfo& info) const override {
    if (info.dtype != at::ScalarType::Undefined) return;
    throw CheckpointError(
        path_text(file.path()),
        fmt::format("tensor '{}': {} is not supported; expected one of {}; quantise the model "
                    "to one of them",
                    printable(info.name), info.dtype_name, supported_ggml_types()));
  }

  GgufMetadata gguf_;
  std::vector<const GgmlType*> types_;  // of the tensors
};

}  // namespace

std::unique_ptr<TensorFile> describe_gguf(const InputFile& file) {
  return std::make_unique<GgufTensors>(file);
}

}  // namespace hooked
