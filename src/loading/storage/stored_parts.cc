#include "loading/storage/stored_parts.h"

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/number_codes.h"

namespace hooked {

const NamedTensor* StoredParts::find(std::string_view ending) const {
  const auto found = beside.find(ending);
  return found == beside.end() ? nullptr : &found->second;
}

const NamedTensor& StoredParts::at(std::string_view ending) const {
  if (const NamedTensor* found = find(ending)) return *found;
  refuse_part(
      numbers,
      fmt::format("lacks a part of its weight; expected a tensor that ends in '{}' next to it", ending));
}

void refuse_part(const NamedTensor& part, std::string_view what) {
  throw CheckpointError(part.tensor.where, fmt::format("tensor '{}' {}", part.name, what));
}

void require_part(const NamedTensor& part, const NamedTensor& numbers, std::string_view what,
                  std::string_view dtype, const std::vector<std::int64_t>& shape) {
  if (part.tensor.dtype_name == dtype && part.tensor.shape == shape) return;
  refuse_part(part, fmt::format("does not fit '{}'; expected {}, {} {}, got {} {}", numbers.name, what, dtype,
                                shape_text(shape), part.tensor.dtype_name, shape_text(part.tensor.shape)));
}

std::int64_t number_count(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::byte> part_bytes(const SourceTensor& part, std::int64_t first, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  part.read_bytes(static_cast<std::uint64_t>(first), bytes);
  return bytes;
}

std::vector<std::uint32_t> part_words(const SourceTensor& part, std::int64_t first, std::int64_t count) {
  constexpr std::uint64_t kWordBytes = 4;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
  part.read_bytes(static_cast<std::uint64_t>(first) * kWordBytes, std::as_writable_bytes(std::span(words)));
  return words;
}

bool can_be_factors(const SourceTensor& part) {
  return at::isFloatingType(part.dtype) || part.dtype_name == "F8_E8M0" || part.dtype_name == "U8";
}

std::vector<float> part_factors(const SourceTensor& part, std::int64_t first, std::int64_t count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  if (at::isFloatingType(part.dtype)) {
    const at::Tensor stored = at::empty({count}, part.dtype);
    part.read_elements(first, stored);
    const at::Tensor wide = stored.to(at::kFloat);
    std::copy_n(static_cast<const float*>(wide.data_ptr()), count, numbers.begin());
    return numbers;
  }
  std::ranges::transform(part_bytes(part, first, count), numbers.begin(), [](std::byte exponent) {
    return e8m0_numbers()[std::to_integer<std::size_t>(exponent)];
  });
  return numbers;
}

namespace {

template <class Dtype>
void round_numbers(std::span<float> numbers) {
  std::ranges::transform(numbers, numbers.begin(),
                         [](float number) { return static_cast<float>(static_cast<Dtype>(number)); });
}

}  // namespace

void round_to_dtype(at::ScalarType dtype, const at::Tensor& numbers) {
  const std::span all(static_cast<float*>(numbers.data_ptr()), static_cast<std::size_t>(numbers.numel()));
  if (dtype == at::kHalf) round_numbers<c10::Half>(all);
  if (dtype == at::kBFloat16) round_numbers<c10::BFloat16>(all);
}

CodeFactors code_factors(at::ScalarType dtype) {
  return dtype == at::kHalf       ? CodeFactors::half
         : dtype == at::kBFloat16 ? CodeFactors::bfloat16
                                  : CodeFactors::single;
}

CodeRounding code_rounding(at::ScalarType dtype) {
  return dtype == at::kHalf       ? CodeRounding::half
         : dtype == at::kBFloat16 ? CodeRounding::bfloat16
                                  : CodeRounding::none;
}

int block_size(std::int64_t count) {
  constexpr int kLeast = 32;
  for (int block = CodedForm::kMostBlock; count > 0 && block >= kLeast; block /= 2) {
    if (count % block == 0) return block;
  }
  return 0;
}

SourceTensor made_weight(const NamedTensor& numbers, std::string_view dtype_name,
                         std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                         std::function<void(std::int64_t first, const at::Tensor& into)> read_elements) {
  SourceTensor weight{.shape = shape,
                      .dtype = at::kFloat,
                      .dtype_name = std::string(dtype_name),
                      .where = numbers.tensor.where,
                      .read = nullptr,
                      .read_elements = read_elements};
  weight.strides = strides;
  // Reading it whole uses the same function as reading blocks.
  weight.read = [shape = std::move(shape), strides = std::move(strides),
                 read_elements = std::move(read_elements)] {
    const at::Tensor all = at::empty({number_count(shape)}, at::kFloat);
    read_elements(0, all);
    return strides.empty() ? all.view(shape) : all.as_strided(shape, strides);
  };
  return weight;
}

}  // namespace hooked
