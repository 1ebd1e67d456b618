#include "io/source_tensor.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "hooked/core/tensor_text.h"
#include "io/path_text.h"

namespace hooked {
namespace {

// Dimensions from the outermost in memory to the innermost; those of one index last.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto distance = [&](std::int64_t d) { return tensor.size(d) == 1 ? -1 : tensor.stride(d); };
  std::ranges::stable_sort(order, [&](auto a, auto b) { return distance(a) > distance(b); });
  return order;
}

}  // namespace

at::Tensor SourceTensor::meta() const { return at::empty(shape, at::TensorOptions(dtype).device(at::kMeta)); }

SourceTensors source_tensors(const CheckpointReader& reader) {
  SourceTensors all;
  for (const std::string& name : reader.names()) {
    const TensorInfo& info = reader.info(name);
    SourceTensor& tensor = all[name];
    tensor = {.shape = info.shape,
              .dtype = info.dtype,
              .dtype_name = info.dtype_name,
              .where = path_text(reader.file_of(name)),
              .read = [&reader, name] { return reader.read(name); },
              .read_elements = nullptr};
    if (!reader.in_order(name)) continue;
    tensor.read_elements = [&reader, name](std::int64_t first, const at::Tensor& into) {
      reader.read_elements(name, first, into);
    };
  }
  return all;
}

SourceTensors source_tensors(StateDict weights) {
  SourceTensors all;
  for (auto& [name, tensor] : weights) {
    const bool defined = tensor.defined();
    all[name] = {.shape = defined ? tensor.sizes().vec() : std::vector<std::int64_t>{},
                 .dtype = defined ? tensor.scalar_type() : at::ScalarType::Undefined,
                 .dtype_name = defined ? std::string(dtype_text(tensor.scalar_type())) : std::string(),
                 .where = "state dict",
                 .read = [tensor = std::move(tensor)] { return tensor; },
                 .read_elements = nullptr};
  }
  return all;
}

StoredTensor stored_tensor(const SourceTensor& source) {
  const at::Tensor meta = source.meta();
  if (auto stored = view_in_file(source, meta, meta)) return *std::move(stored);
  return in_memory(source.read());
}

std::optional<StoredTensor> view_in_file(const SourceTensor& source, const at::Tensor& meta,
                                         const at::Tensor& made) {
  if (!source.read_elements || !made.is_alias_of(meta) || made.scalar_type() != meta.scalar_type() ||
      made.dim() == 0) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> order = memory_order(made);
  if (!made.permute(order).is_contiguous()) return std::nullopt;
  std::vector<std::int64_t> back(order.size()), sizes(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    sizes[i] = made.size(order[i]);
  }
  const std::int64_t slice =
      std::accumulate(sizes.begin() + 1, sizes.end(), std::int64_t{1}, std::multiplies<>());
  const auto read = [=, read_elements = source.read_elements, offset = made.storage_offset(),
                     dtype = made.scalar_type()](std::int64_t first, std::int64_t count) {
    const at::Tensor flat = at::empty({count * slice}, dtype);
    read_elements(offset + first * slice, flat);
    std::vector<std::int64_t> block = sizes;
    block.front() = count;
    return flat.view(block).permute(back);
  };
  return StoredTensor{.shape = made.sizes().vec(),
                      .dtype = made.scalar_type(),
                      .device = at::kCPU,
                      .dimension = order.front(),
                      .read = read};
}

}  // namespace hooked
