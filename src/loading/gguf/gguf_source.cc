#include "loading/gguf/gguf_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/name_list.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/gguf/ggml_types.h"

namespace hooked {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t size_product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

[[noreturn]] void refuse_gguf_tensor(const SourceTensor& tensor, std::string_view name,
                                     std::string_view what) {
  throw CheckpointError(tensor.where, fmt::format("tensor '{}' {}", name, what));
}

// Makes a source that can only `read_elements` readable as a whole.
void read_whole_by_elements(SourceTensor& tensor) {
  tensor.read = [shape = tensor.shape, strides = tensor.strides, dtype = tensor.dtype,
                 read_elements = tensor.read_elements] {
    const at::Tensor all = at::empty({size_product(shape)}, dtype);
    read_elements(0, all);
    return strides.empty() ? all.view(shape) : all.as_strided(shape, strides);
  };
}

// A run of the elements of `whole` as a separate tensor.
SourceTensor slice_of(const SourceTensor& whole, std::int64_t first, Sizes shape) {
  SourceTensor slice = whole;
  slice.shape = std::move(shape);
  slice.read_bytes = nullptr;
  slice.read_elements = [read = whole.read_elements, begin = first](std::int64_t at, const at::Tensor& into) {
    read(begin + at, into);
  };
  if (slice.codes && first % slice.codes->form.block == 0) {
    slice.codes->read = [read = whole.codes->read, begin = first / slice.codes->form.block](
                            std::int64_t at, std::span<CodedBlock> into) { read(begin + at, into); };
  } else {
    slice.codes.reset();
  }
  read_whole_by_elements(slice);
  return slice;
}

SourceTensor reshaped(const SourceTensor& stored, Sizes shape) {
  return slice_of(stored, 0, std::move(shape));
}

// [out, in] as its original [in, out].
SourceTensor turned_over(const SourceTensor& stored) {
  SourceTensor tensor = reshaped(stored, {stored.shape[1], stored.shape[0]});
  tensor.strides = {1, stored.shape[1]};
  read_whole_by_elements(tensor);
  return tensor;
}

// One less than the stored number, in float64: there the difference is exact, so that adding one restores the
// number.
SourceTensor without_offset(const SourceTensor& stored) {
  SourceTensor tensor = stored;
  tensor.dtype = at::kDouble;
  tensor.read_bytes = nullptr;
  tensor.codes.reset();
  tensor.read_elements = [read = stored.read_elements, dtype = stored.dtype](std::int64_t first,
                                                                             const at::Tensor& into) {
    const at::Tensor numbers = at::empty({into.numel()}, dtype);
    read(first, numbers);
    into.copy_(numbers.view(into.sizes()));
    into.sub_(1.0);
  };
  read_whole_by_elements(tensor);
  return tensor;
}

// Row i is the stored row `rows[i]`.
SourceTensor with_rows(const SourceTensor& stored, std::vector<std::int64_t> rows) {
  SourceTensor tensor = stored;
  tensor.read_bytes = nullptr;
  const std::int64_t width = stored.shape.size() == 1 ? 1 : stored.shape[1];
  const auto order = std::make_shared<const std::vector<std::int64_t>>(std::move(rows));
  const auto all_rows = static_cast<std::int64_t>(order->size());
  if (width == 1) {  // a bias: single numbers would each be a read
    tensor.read_elements = [read = stored.read_elements, order, all_rows, dtype = stored.dtype](
                               std::int64_t first, const at::Tensor& into) {
      const at::Tensor all = at::empty({all_rows}, dtype);
      read(0, all);
      for (std::int64_t i = 0; i < into.numel(); ++i)
        into.view({-1})[i].copy_(all[(*order)[static_cast<std::size_t>(first + i)]]);
    };
  } else {
    tensor.read_elements = [read = stored.read_elements, order, width](std::int64_t first,
                                                                       const at::Tensor& into) {
      const at::Tensor flat = into.view({-1});
      for (std::int64_t at = 0; at < flat.numel();) {  // row by row, or the wanted part of a row
        const std::int64_t row = (first + at) / width, column = (first + at) % width;
        const std::int64_t count = std::min(width - column, flat.numel() - at);
        read((*order)[static_cast<std::size_t>(row)] * width + column, flat.narrow(0, at, count));
        at += count;
      }
    };
  }
  if (tensor.codes && width % tensor.codes->form.block == 0) {
    tensor.codes->read = [read = stored.codes->read, order, blocks = width / tensor.codes->form.block](
                             std::int64_t first, std::span<CodedBlock> into) {
      for (std::size_t done = 0; done < into.size();) {  // row by row, or the wanted part of a row
        const std::int64_t at = first + static_cast<std::int64_t>(done), row = at / blocks,
                           place = at % blocks;
        const std::size_t count = std::min(static_cast<std::size_t>(blocks - place), into.size() - done);
        read((*order)[static_cast<std::size_t>(row)] * blocks + place, into.subspan(done, count));
        done += count;
      }
    };
  } else {
    tensor.codes.reset();
  }
  read_whole_by_elements(tensor);
  return tensor;
}

// Note [Rotary rows of GGUF]
// Llama's rotary positions rotate dimension j of a head with j + d_head / 2. llama.cpp rotates neighbours, so
// its files have the rows of queries and keys in another order: row 2 j + i of a head is the checkpoint's row
// i * d_head / 2 + j. Other architectures keep their order.
std::vector<std::int64_t> rotary_rows(std::int64_t heads, std::int64_t d_head) {
  std::vector<std::int64_t> rows;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < d_head / 2; ++j) rows.push_back(head * d_head + 2 * j + i);
    }
  }
  return rows;
}

// Groups of queries, their key and their value, from rows in three consecutive parts.
std::vector<std::int64_t> grouped_rows(const ModelConfig& config) {
  const std::int64_t heads = config.n_heads, kv = config.n_kv_heads, group = heads / kv;
  std::vector<std::int64_t> rows;
  const auto add = [&](std::int64_t slot) {
    for (std::int64_t i = 0; i < config.d_head; ++i) rows.push_back(slot * config.d_head + i);
  };
  for (std::int64_t g = 0; g < kv; ++g) {
    for (std::int64_t q = 0; q < group; ++q) add(g * group + q);
    add(heads + g);
    add(heads + kv + g);
  }
  return rows;
}

/// The place of a GGUF file's tensor in the checkpoint.
struct GgufPlace {
  const GgufName* name;
  std::string theirs;  ///< with the block and `.weight`, `{}` for an expert
};

std::optional<GgufPlace> place_of(const GgufArchitecture& architecture, std::string_view stored,
                                  std::int64_t n_layers) {
  const auto dot = stored.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view module = stored.substr(0, dot);
  const std::string_view ending = stored.substr(dot);
  if (ending != ".weight" && ending != ".bias") return std::nullopt;
  constexpr std::string_view kBlock = "blk.";
  if (!module.starts_with(kBlock)) {
    for (const GgufName& name : architecture.ends) {
      if (name.stored == module) return GgufPlace{&name, std::string(name.theirs) + std::string(ending)};
    }
    return std::nullopt;
  }
  module.remove_prefix(kBlock.size());
  std::int64_t layer = -1;
  const auto [end, failed] = std::from_chars(module.data(), module.data() + module.size(), layer);
  module.remove_prefix(static_cast<std::size_t>(end - module.data()));
  if (failed != std::errc() || layer < 0 || layer >= n_layers || !module.starts_with('.'))
    return std::nullopt;
  module.remove_prefix(1);
  for (const auto part : architecture.blocks) {
    for (const GgufName& name : part) {
      if (name.stored != module) continue;
      return GgufPlace{&name, fmt::format(fmt::runtime(architecture.block), layer) +
                                  std::string(name.theirs) + std::string(ending)};
    }
  }
  return std::nullopt;
}

class GgufRenaming {
 public:
  GgufRenaming(const GgufArchitecture& architecture, const ModelConfig& config)
      : architecture_(architecture), config_(config) {}

  void add(const std::string& name, const SourceTensor& tensor) {
    const auto place = place_of(architecture_, name, config_.n_layers);
    if (!place) {
      refuse_gguf_tensor(
          tensor, name,
          fmt::format("is not one that the architecture '{}' is known to have; expected only tensors "
                      "of the model",
                      architecture_.name));
    }
    if (tensor.dtype == at::ScalarType::Undefined) {
      refuse_gguf_tensor(
          tensor, name,
          fmt::format("is stored as {}, which is not supported; expected one of {}; quantise the "
                      "model to one of them",
                      tensor.dtype_name, supported_ggml_types()));
    }
    place_tensor(name, tensor, *place);
  }

  SourceTensors take() && { return std::move(renamed_); }

 private:
  void place_tensor(const std::string& name, const SourceTensor& tensor, const GgufPlace& place) {
    const std::int64_t rank = static_cast<std::int64_t>(tensor.shape.size());
    switch (place.name->layout) {
      case GgufLayout::same:
        return put(place.theirs, tensor);
      case GgufLayout::query_rows:
        return put(place.theirs, with_rows(tensor, rotary_rows_of(name, tensor, config_.n_heads)));
      case GgufLayout::key_rows:
        return put(place.theirs, with_rows(tensor, rotary_rows_of(name, tensor, config_.n_kv_heads)));
      case GgufLayout::side_by_side:
        check_rows_of(name, tensor, config_.n_heads + 2 * config_.n_kv_heads);
        return put(place.theirs, with_rows(tensor, grouped_rows(config_)));
      case GgufLayout::split:
        return put_split(name, tensor, place);
      case GgufLayout::turned:
        return put(place.theirs, rank == 2 ? turned_over(tensor) : tensor);
      case GgufLayout::offset:
        return put(place.theirs, without_offset(tensor));
      case GgufLayout::experts:
        return put_experts(name, tensor, place);
      case GgufLayout::column:
        return put(place.theirs, rank == 1 ? reshaped(tensor, {1, tensor.shape[0]}) : tensor);
      case GgufLayout::dropped:
        return;
    }
  }

  void put(const std::string& theirs, SourceTensor tensor) {
    renamed_.insert_or_assign(theirs, std::move(tensor));
  }

  // Checks for rows of that many heads.
  void check_rows_of(const std::string& name, const SourceTensor& tensor, std::int64_t heads) const {
    const bool fits =
        !tensor.shape.empty() && tensor.shape.size() <= 2 && tensor.shape.front() == heads * config_.d_head;
    if (fits) return;
    refuse_gguf_tensor(
        tensor, name,
        fmt::format("has another shape than the metadata says; expected {} heads of {} rows, got {}", heads,
                    config_.d_head, shape_text(tensor.shape)));
  }

  std::vector<std::int64_t> rotary_rows_of(const std::string& name, const SourceTensor& tensor,
                                           std::int64_t heads) const {
    check_rows_of(name, tensor, heads);
    return rotary_rows(heads, config_.d_head);
  }

  void put_split(const std::string& name, const SourceTensor& tensor, const GgufPlace& place) {
    check_rows_of(name, tensor, config_.n_heads + 2 * config_.n_kv_heads);
    const std::int64_t width = tensor.shape.size() == 1 ? 1 : tensor.shape[1];
    std::int64_t first = 0;
    for (const auto& [letter, heads] : {std::pair{"q", config_.n_heads}, std::pair{"k", config_.n_kv_heads},
                                        std::pair{"v", config_.n_kv_heads}}) {
      Sizes shape = tensor.shape;
      shape.front() = heads * config_.d_head;
      const std::int64_t rows = shape.front();
      put(fmt::format(fmt::runtime(place.theirs), letter), slice_of(tensor, first * width, std::move(shape)));
      first += rows;
    }
  }

  void put_experts(const std::string& name, const SourceTensor& tensor, const GgufPlace& place) {
    const std::int64_t count = config_.experts ? config_.experts->n_experts : 0;
    if (tensor.shape.size() != 3 || tensor.shape.front() != count) {
      refuse_gguf_tensor(
          tensor, name,
          fmt::format("has another shape than the metadata says; expected a matrix for each of {} "
                      "experts, got {}",
                      count, shape_text(tensor.shape)));
    }
    const Sizes matrix(tensor.shape.begin() + 1, tensor.shape.end());
    for (std::int64_t expert = 0; expert < count; ++expert) {
      put(fmt::format(fmt::runtime(place.theirs), expert),
          slice_of(tensor, expert * size_product(matrix), matrix));
    }
  }

  const GgufArchitecture& architecture_;
  const ModelConfig& config_;
  SourceTensors renamed_;
};

// Lists that became numbers of the config.
bool is_factor_list(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_short.weight" ||
         name == "rope_factors_long.weight";
}

}  // namespace

std::vector<std::string> read_gguf_tensors(SourceTensors& source, const GgufArchitecture& architecture,
                                           const ModelConfig& config) {
  std::map<std::string, std::size_t> quantised;  // number of tensors in each format
  GgufRenaming renaming(architecture, config);
  for (const auto& [name, tensor] : source) {
    if (is_factor_list(name) && architecture.rotary) continue;
    renaming.add(name, tensor);
    const auto type = std::ranges::find(ggml_types(), tensor.dtype_name, &GgmlType::name);
    if (type->form != nullptr) ++quantised[tensor.dtype_name];
  }
  source = std::move(renaming).take();
  if (quantised.empty()) return {};
  std::vector<std::string> kinds;
  for (const auto& [name, count] : quantised) kinds.push_back(fmt::format("{} as {}", count, name));
  return {fmt::format("weights are stored quantised ({}): the model has the numbers of the quantised one",
                      fmt::join(kinds, ", "))};
}

void check_all_are_read(const SourceTensors& source, const std::vector<TensorRecipe>& recipes,
                        const ModelConfig& config, const Family& family) {
  std::set<std::string_view> read;
  for (const TensorRecipe& recipe : recipes) read.insert(recipe.sources.begin(), recipe.sources.end());
  std::vector<std::string> unread;
  for (const auto& [name, tensor] : source) {
    const bool spare_copy = config.tied_unembedding() && name == family.unembedding;
    if (!read.contains(name) && !spare_copy) unread.push_back(name);
  }
  if (unread.empty()) return;
  throw CheckpointError(
      source.at(unread.front()).where,
      fmt::format("{} tensors have no place in a {} model: {} (under the names of its checkpoints); "
                  "expected only tensors of the model",
                  unread.size(), family.model_type, name_list(unread)));
}

}  // namespace hooked
