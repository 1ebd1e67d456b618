#include "io/checkpoint/source_tensor.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "hooked/core/tensor_text.h"
#include "io/files/path_text.h"

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

// Whether `tensor` [.., .., .., ..] has the same numbers at each index of these dimensions.
bool repeats(const at::Tensor& tensor, std::array<std::int64_t, 2> dimensions) {
  at::Tensor once = tensor;
  bool by_strides = true;
  for (const std::int64_t dimension : dimensions) {
    by_strides = by_strides && (tensor.size(dimension) == 1 || tensor.stride(dimension) == 0);
    once = once.narrow(dimension, 0, 1);
  }
  return by_strides || at::equal(tensor, once.expand_as(tensor));
}

}  // namespace

at::Tensor SourceTensor::meta() const {
  const at::TensorOptions options = at::TensorOptions(dtype).device(at::kMeta);
  return strides.empty() ? at::empty(shape, options) : at::empty_strided(shape, strides, options);
}

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
    if (reader.in_order(name)) {
      tensor.read_elements = [&reader, name](std::int64_t first, const at::Tensor& into) {
        reader.read_elements(name, first, into);
      };
    }
    if (const CodedForm* const form = reader.form_of(name)) {
      tensor.codes = SourceCodes{*form, [&reader, name](std::int64_t first, std::span<CodedBlock> into) {
                                   reader.read_codes(name, first, into);
                                 }};
    }
    if (reader.has_bytes(name)) {
      tensor.read_bytes = [&reader, name](std::uint64_t first, std::span<std::byte> into) {
        reader.read_bytes(name, first, into);
      };
    }
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
  const at::Tensor ordered = made.permute(order);
  const std::vector<std::int64_t> sizes = ordered.sizes().vec(), strides = ordered.strides().vec();
  std::vector<std::int64_t> back(order.size());
  std::int64_t slice = 1,
               extent = 1;  // of one index of the outermost axis: its elements, and the run they lie in
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    if (i == 0) continue;
    slice *= sizes[i];
    extent += (sizes[i] - 1) * strides[i];
  }
  const bool any = made.numel() > 0;
  const std::int64_t step = sizes.front() > 1 ? strides.front() : extent;
  if (!ordered.is_contiguous() && (!any || step < extent || step > 2 * slice)) return std::nullopt;
  const auto read = [=, read_elements = source.read_elements, offset = made.storage_offset(),
                     dtype = made.scalar_type()](std::int64_t first, std::int64_t count) {
    const at::Tensor run = at::empty({any && count > 0 ? (count - 1) * step + extent : 0}, dtype);
    read_elements(offset + first * step, run);
    std::vector<std::int64_t> block = sizes;
    block.front() = count;
    return run.as_strided(block, strides).permute(back);
  };
  return StoredTensor{.shape = made.sizes().vec(),
                      .dtype = made.scalar_type(),
                      .device = at::kCPU,
                      .dimension = order.front(),
                      .read = read};
}

std::optional<CodedRows> coded_rows(const SourceTensor& source, const RecipeOfRows& recipe) {
  if (!source.codes) return std::nullopt;
  const auto& strides = source.codes->strides;
  const at::Tensor meta =
      strides.empty() ? source.meta() : at::empty_strided(source.shape, strides, source.meta().options());
  if (meta.numel() == 0 || meta.dim() == 0) return std::nullopt;
  const std::int64_t block = source.codes->form.block;
  const std::vector<std::int64_t> order = memory_order(meta);
  std::vector<std::int64_t> sizes = meta.permute(order).sizes().vec(), back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  // A row of the file: as many of the innermost dimensions as an output has inputs.
  const at::Tensor made = recipe(meta);
  if (made.dim() != 4) return std::nullopt;
  std::size_t outer = sizes.size();  // dimensions that number the rows
  std::int64_t width = 1;
  while (outer > 0 && width < made.size(2) * made.size(3)) width *= sizes[--outer];
  const std::int64_t height = meta.numel() / width;
  if (width % block != 0 || std::max(width, height) > std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  // For each element of the result, the row and the column of the file that it comes from. A view of these
  // takes no memory, and heads that are picked out take 4 bytes an element for a moment.
  const auto traced = [&](const at::Tensor& numbers, std::vector<std::int64_t> shape) {
    return recipe(numbers.view(shape).expand(sizes).permute(back));
  };
  std::vector<std::int64_t> of_rows = sizes, of_columns = sizes;
  std::fill(of_rows.begin() + static_cast<std::ptrdiff_t>(outer), of_rows.end(), 1);
  std::fill(of_columns.begin(), of_columns.begin() + static_cast<std::ptrdiff_t>(outer), 1);
  const at::Tensor columns = traced(at::arange(width, at::kInt), of_columns);
  if (columns.scalar_type() != at::kInt) return std::nullopt;  // scaled or rounded
  const at::Tensor own = columns.select(0, 0).select(0, 0).reshape(-1);
  const std::int64_t in = own.numel(), first = own[0].item<std::int64_t>();
  const bool in_order = at::equal(own, at::arange(first, first + in, at::kInt)) && first % block == 0 &&
                        in % block == 0 && repeats(columns, {0, 1});
  if (!in_order) return std::nullopt;
  const at::Tensor rows = traced(at::arange(height, at::kInt), of_rows);
  if (!repeats(rows, {2, 3})) return std::nullopt;
  const at::Tensor places = rows.select(3, 0).select(2, 0).reshape(-1).contiguous();
  const auto read = [=, read = source.codes->read](std::int64_t out, std::span<CodedBlock> into) {
    read((places.const_data_ptr<std::int32_t>()[out] * width + first) / block, into);
  };
  return CodedRows{source.codes->form, places.numel(), in, read, source.codes->hold};
}

}  // namespace hooked
