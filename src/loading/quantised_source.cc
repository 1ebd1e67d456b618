#include "loading/quantised_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "families/composite.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/selection.h"
#include "io/number_codes.h"

namespace hooked {
namespace {

using Shape = std::vector<std::int64_t>;

[[noreturn]] void refuse(const SourceTensor& tensor, std::string_view name, std::string_view what) {
  throw CheckpointError(tensor.where, fmt::format("tensor '{}' {}", name, what));
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::byte> bytes_of(const SourceTensor& tensor, std::int64_t first, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  tensor.read_bytes(static_cast<std::uint64_t>(first), bytes);
  return bytes;
}

/// A weight that is made of a tensor of numbers and one of factors.
struct Parts {
  std::string weight, numbers_name, factors_name;
  SourceTensor numbers, factors;
};

// Note [MXFP4]
// A byte of `blocks` [..., group, 16] holds two numbers, the first in its lower half; a byte of `scales`
// [..., group] the power of two of 32 of them. They are rows of a matrix [out, in] for each expert; the
// weight is that turned over, [expert, in, out], as gpt-oss stores it in numbers, but lies in memory as the
// rows do.

constexpr std::int64_t kGroup = 32;
constexpr std::int64_t kGroupBytes = kGroup / 2;

void write_group(const std::byte* bytes, float factor, float* into) {
  std::array<float, 16> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = kE2m1Numbers[i] * factor;
  for (std::int64_t i = 0; i < kGroupBytes; ++i) {
    const auto pair = std::to_integer<unsigned>(bytes[i]);
    into[2 * i] = numbers[pair & 15U];
    into[2 * i + 1] = numbers[pair >> 4U];
  }
}

void read_mxfp4(const Parts& parts, std::int64_t first, const at::Tensor& into) {
  const std::int64_t end = first + into.numel();
  if (first == end) return;
  const std::int64_t first_group = first / kGroup, groups = (end + kGroup - 1) / kGroup - first_group;
  const std::vector<std::byte> blocks =
      bytes_of(parts.numbers, first_group * kGroupBytes, groups * kGroupBytes);
  const std::vector<std::byte> scales = bytes_of(parts.factors, first_group, groups);
  auto* const out = static_cast<float*>(into.data_ptr());
  std::array<float, kGroup> group{};
  for (std::int64_t g = 0; g < groups; ++g) {
    const float factor = e8m0_numbers()[std::to_integer<std::size_t>(scales[static_cast<std::size_t>(g)])];
    const std::byte* bytes = blocks.data() + g * kGroupBytes;
    const std::int64_t begin = (first_group + g) * kGroup;  // of the group, among all numbers
    if (begin >= first && begin + kGroup <= end) {
      write_group(bytes, factor, out + (begin - first));
      continue;
    }
    write_group(bytes, factor, group.data());
    const std::int64_t from = std::max(begin, first), to = std::min(begin + kGroup, end);
    std::copy(group.begin() + (from - begin), group.begin() + (to - begin), out + (from - first));
  }
}

SourceTensor mxfp4_weight(Parts parts) {
  const Shape& blocks = parts.numbers.shape;
  if (blocks.size() != 4 || blocks.back() != kGroupBytes) {
    refuse(parts.numbers, parts.numbers_name,
           fmt::format("is no tensor of MXFP4 blocks; expected the shape [expert, row, group, {}], got {}",
                       kGroupBytes, shape_text(blocks)));
  }
  const Shape wanted(blocks.begin(), blocks.end() - 1);
  if (parts.factors.dtype_name != "U8" || parts.factors.shape != wanted) {
    refuse(parts.factors, parts.factors_name,
           fmt::format("does not fit '{}'; expected one exponent for each group, U8 {}, got {} {}",
                       parts.numbers_name, shape_text(wanted), parts.factors.dtype_name,
                       shape_text(parts.factors.shape)));
  }
  const std::int64_t rows = blocks[1], columns = blocks[2] * kGroup;
  SourceTensor weight{.shape = {blocks[0], columns, rows},
                      .dtype = at::kFloat,
                      .dtype_name = "MXFP4",
                      .where = parts.numbers.where,
                      .read = nullptr,
                      .read_elements = nullptr};
  weight.strides = {rows * columns, 1, columns};
  weight.read_elements = [parts = std::move(parts)](std::int64_t first, const at::Tensor& into) {
    read_mxfp4(parts, first, into);
  };
  return weight;
}

// Note [fp8]
// Numbers [..., row, column] in e4m3; a factor for all of them, for each row, or for each block of rows and
// columns, of which the last ones may be smaller. The product is rounded to float32.

/// How factors lie over the numbers: those of `rows` x `columns` numbers have one in common.
struct FactorGrid {
  std::int64_t matrix_rows, matrix_columns;  ///< of a matrix; there may be several, one behind the other
  std::int64_t rows, columns;                ///< of a block
  std::int64_t grid_rows() const { return (matrix_rows + rows - 1) / rows; }
  std::int64_t grid_columns() const { return (matrix_columns + columns - 1) / columns; }
  /// The row of factors that belongs to a row of numbers, both counted over all matrices.
  std::int64_t grid_row(std::int64_t row) const {
    return row / matrix_rows * grid_rows() + row % matrix_rows / rows;
  }
};

bool is_one(const Shape& shape) { return product(shape) == 1; }

// The grid that the factors' shape and config.json agree on.
std::optional<FactorGrid> grid_of(const Shape& numbers, const Shape& factors,
                                  const QuantisedStorage& storage) {
  const std::int64_t rows = numbers[numbers.size() - 2], columns = numbers.back();
  if (storage.by_tensor && is_one(factors)) {
    const std::int64_t all = product(numbers) / std::max<std::int64_t>(1, columns);
    return FactorGrid{all, columns, std::max<std::int64_t>(1, all), std::max<std::int64_t>(1, columns)};
  }
  const auto fits = [&](const FactorGrid& grid, bool one_axis) {
    Shape wanted = numbers;
    wanted[numbers.size() - 2] = grid.grid_rows();
    wanted.back() = grid.grid_columns();
    if (factors == wanted) return true;
    wanted.pop_back();
    return one_axis && factors == wanted;
  };
  if (storage.by_row) {
    const FactorGrid grid{rows, columns, 1, std::max<std::int64_t>(1, columns)};
    if (fits(grid, true)) return grid;
  }
  if (storage.block) {
    const FactorGrid grid{rows, columns, storage.block->at(0), storage.block->at(1)};
    if (fits(grid, false)) return grid;
  }
  return std::nullopt;
}

std::string wanted_factors(const Shape& numbers, const QuantisedStorage& storage) {
  std::vector<std::string> kinds;
  if (storage.by_tensor) kinds.emplace_back("one for all");
  if (storage.by_row) kinds.emplace_back("one for each row");
  if (storage.block)
    kinds.push_back(fmt::format("one for each block of {} x {}", storage.block->at(0), storage.block->at(1)));
  return fmt::format("{} of {}", fmt::join(kinds, " or "), shape_text(numbers));
}

// Factors `first` to `first + count` in float32.
std::vector<float> factors_of(const SourceTensor& factors, std::int64_t first, std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  if (at::isFloatingType(factors.dtype)) {
    const at::Tensor stored = at::empty({count}, factors.dtype);
    factors.read_elements(first, stored);
    const at::Tensor wide = stored.to(at::kFloat);
    std::copy_n(static_cast<const float*>(wide.data_ptr()), count, numbers.begin());
    return numbers;
  }
  std::ranges::transform(bytes_of(factors, first, count), numbers.begin(), [](std::byte exponent) {
    return e8m0_numbers()[std::to_integer<std::size_t>(exponent)];
  });
  return numbers;
}

void read_fp8(const Parts& parts, const FactorGrid& grid, std::int64_t first, const at::Tensor& into) {
  const std::int64_t count = into.numel();
  if (count == 0) return;
  const std::int64_t width = grid.matrix_columns, blocks = grid.grid_columns();
  const std::vector<std::byte> bytes = bytes_of(parts.numbers, first, count);
  const std::int64_t first_factors = grid.grid_row(first / width);
  const std::int64_t last_factors = grid.grid_row((first + count - 1) / width);
  const std::vector<float> factors =
      factors_of(parts.factors, first_factors * blocks, (last_factors - first_factors + 1) * blocks);
  auto* const out = static_cast<float*>(into.data_ptr());
  const ByteNumbers& numbers = e4m3_numbers();
  for (std::int64_t at = 0; at < count;) {  // a stretch of one row in one block after another
    const std::int64_t row = (first + at) / width, column = (first + at) % width,
                       block = column / grid.columns;
    const std::int64_t end = std::min({count, at + width - column, at + (block + 1) * grid.columns - column});
    const float factor =
        factors[static_cast<std::size_t>((grid.grid_row(row) - first_factors) * blocks + block)];
    for (; at < end; ++at) {
      out[at] = numbers[std::to_integer<std::size_t>(bytes[static_cast<std::size_t>(at)])] * factor;
    }
  }
}

SourceTensor fp8_weight(Parts parts, const QuantisedStorage& storage) {
  const Shape& numbers = parts.numbers.shape;
  if (numbers.size() < 2) {
    refuse(parts.numbers, parts.numbers_name,
           fmt::format("is stored in fp8; expected that of matrices alone, got the shape {}",
                       shape_text(numbers)));
  }
  const auto grid = grid_of(numbers, parts.factors.shape, storage);
  const std::string& dtype = parts.factors.dtype_name;
  if (!grid || (!at::isFloatingType(parts.factors.dtype) && dtype != "F8_E8M0" && dtype != "U8")) {
    refuse(
        parts.factors, parts.factors_name,
        fmt::format("does not fit '{}'; expected factors, {} (see {}), got {} {}", parts.numbers_name,
                    wanted_factors(numbers, storage), storage.where, dtype, shape_text(parts.factors.shape)));
  }
  SourceTensor weight{.shape = numbers,
                      .dtype = at::kFloat,
                      .dtype_name = parts.numbers.dtype_name,
                      .where = parts.numbers.where,
                      .read = nullptr,
                      .read_elements = nullptr};
  weight.read_elements = [parts = std::move(parts), grid = *grid](std::int64_t first,
                                                                  const at::Tensor& into) {
    read_fp8(parts, grid, first, into);
  };
  return weight;
}

// A weight is read whole as it is read in blocks.
void add_reading_whole(SourceTensor& weight) {
  weight.read = [shape = weight.shape, strides = weight.strides, dtype = weight.dtype,
                 read_elements = weight.read_elements] {
    const at::Tensor all = at::empty({product(shape)}, dtype);
    read_elements(0, all);
    return strides.empty() ? all.view(shape) : all.as_strided(shape, strides);
  };
}

// `model.layers.0.mlp.up_proj` of its weight.
std::string_view module_of(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

// The pattern of config.json that says that this module is stored as numbers, or nothing. Regular expressions
// (`re:`) are left to whoever wrote the file.
const std::string* said_to_be_numbers(const QuantisedStorage& storage, std::string_view module) {
  const auto found = std::ranges::find_if(
      storage.as_they_are, [&](const std::string& pattern) { return glob_matches(pattern, module); });
  return found == storage.as_they_are.end() ? nullptr : &*found;
}

std::optional<std::string> factors_beside(const SourceTensors& source, const StorageFormat& format,
                                          const std::string& weight) {
  for (const std::string_view ending : format.factors) {
    std::string name = weight + std::string(ending);
    if (source.contains(name)) return name;
  }
  return std::nullopt;
}

Parts parts_of(const SourceTensors& source, const QuantisedStorage& storage,
               const std::string& numbers_name) {
  const StorageFormat& format = *storage.format;
  const SourceTensor& numbers = source.at(numbers_name);
  Parts parts{.weight = numbers_name.substr(0, numbers_name.size() - format.ending.size()),
              .numbers_name = numbers_name,
              .factors_name = {},
              .numbers = numbers,
              .factors = {}};
  if (!numbers.read_bytes)
    refuse(numbers, numbers_name, "is not in safetensors; expected quantised weights there");
  if (const std::string* said = said_to_be_numbers(storage, module_of(parts.weight))) {
    refuse(numbers, numbers_name,
           fmt::format("is stored as {}, and {} says of '{}' that it is not; expected what the config says",
                       format.name, storage.where, *said));
  }
  const auto factors = factors_beside(source, format, parts.weight);
  if (!factors) {
    refuse(numbers, numbers_name,
           fmt::format("is stored as {} without its factors; expected a tensor '{}{}'", format.name,
                       parts.weight, fmt::join(format.factors, fmt::format("' or '{}", parts.weight))));
  }
  if (!format.ending.empty() && source.contains(parts.weight)) {
    refuse(numbers, numbers_name,
           fmt::format("is '{}' a second time; expected the weight once, as {} or as numbers", parts.weight,
                       format.name));
  }
  parts.factors_name = *factors;
  parts.factors = source.at(*factors);
  return parts;
}

// Factors of activations, keys and values beside weights.
bool is_activation_factor(std::string_view name) {
  constexpr std::string_view kEndings[] = {".input_scale",  ".input_scale_ub", ".activation_scale",
                                           ".output_scale", ".k_scale",        ".v_scale",
                                           ".q_scale"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

std::vector<std::string> read_quantised(SourceTensors& source, const QuantisedStorage& storage,
                                        const Family& family) {
  const StorageFormat& format = *storage.format;
  const auto of_another = [&](const std::string& name) {
    return family.inside != nullptr && other_part(*family.inside, name).has_value();
  };
  std::vector<std::string> quantised;
  for (const auto& [name, tensor] : source) {
    if (tensor.dtype_name == format.dtype && name.ends_with(format.ending) && !of_another(name))
      quantised.push_back(name);
  }
  if (quantised.empty()) {
    return {
        fmt::format("[{}] says that weights are stored as {}, and no tensor is: they are read as they are",
                    storage.where, format.name)};
  }
  for (const std::string& name : quantised) {
    Parts parts = parts_of(source, storage, name);
    const std::string weight = parts.weight, factors = parts.factors_name;
    SourceTensor made = format.code == NumberCode::mxfp4 ? mxfp4_weight(std::move(parts))
                                                         : fp8_weight(std::move(parts), storage);
    add_reading_whole(made);
    source.erase(name);
    source.erase(factors);
    source.insert_or_assign(weight, std::move(made));
  }
  std::erase_if(source, [&](const auto& tensor) {
    return is_activation_factor(tensor.first) && !of_another(tensor.first);
  });
  return {fmt::format(
      "{} weights are stored as {}: what is loaded are the numbers that they stand for, those of the "
      "quantised model, and its activations are not quantised",
      quantised.size(), format.name)};
}

}  // namespace hooked
