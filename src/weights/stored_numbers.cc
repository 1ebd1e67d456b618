#include "weights/stored_numbers.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace hooked::weights {
namespace {

// Enough for a median, and negligible compared to what loading reads.
constexpr std::int64_t kSampledElements = std::int64_t{1} << 20;
constexpr std::int64_t kSampledPlaces = 256;

}  // namespace

std::optional<StoredTensor> StoredNumbers::tensor(const WeightPart& part, std::string_view name) const {
  const bool tied = name == "unembed.W_U" && config_.tied_unembedding();
  auto found = stored_(name_of(part, tied ? "embed.W_E" : name));
  return found && tied ? transposed(std::move(*found)) : found;
}

std::optional<BlockedWeight> StoredNumbers::find(const WeightPart& part, std::string_view name) const {
  auto found = tensor(part, name);
  if (!found) return std::nullopt;
  return BlockedWeight(std::move(*found), find_weight_row(name)->axes);
}

at::Tensor StoredNumbers::values(const WeightPart& part, std::string_view name) const {
  const auto found = find(part, name);
  return found ? found->values() : at::Tensor();
}

std::optional<Sample> StoredNumbers::sample(const WeightPart& part, std::string_view name, Axis axis,
                                            std::vector<std::int64_t> also) const {
  const auto stored = tensor(part, name);
  if (!stored) return std::nullopt;
  const std::int64_t size = stored->shape[static_cast<std::size_t>(stored->dimension)];
  std::int64_t slice = 1;
  for (const std::int64_t length : stored->shape) slice *= length;
  slice = std::max<std::int64_t>(1, slice / std::max<std::int64_t>(1, size));
  const std::int64_t count =
      std::clamp<std::int64_t>(kSampledElements / slice, 1, std::min(size, kSampledPlaces));
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i) places.push_back(i * size / count);
  if (find_weight_row(name)->axes.find(axis) == stored->dimension)
    places.insert(places.end(), also.begin(), also.end());
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<at::Tensor> slices;
  for (const std::int64_t place : places) slices.push_back(stored->read(place, 1).to(at::kDouble));
  return Sample{.values = at::cat(slices, stored->dimension),
                .places = at::tensor(places, at::TensorOptions(at::kLong)).to(stored->device),
                .dimension = stored->dimension,
                .stored = stored->dtype};
}

std::string StoredNumbers::name_of(const WeightPart& part, std::string_view name) const {
  return weight_name(find_weight_row(name)->in_block() ? part : std::nullopt, name, config_);
}

at::ScalarType StoredNumbers::kept_dtype(at::ScalarType stored) const {
  return c10::promoteTypes(stored, config_.dtype);
}

double epsilon_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kHalf:
      return std::ldexp(1.0, -10);
    case at::kBFloat16:
      return std::ldexp(1.0, -7);
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

double largest_shift(at::ScalarType dtype) {
  return std::max(256.0, std::ldexp(1.0, -10) / epsilon_of(dtype));
}

std::string not_finite(const at::Tensor& values) {
  const at::Tensor wrong = at::isfinite(values).logical_not_().flatten();
  const std::int64_t count = wrong.sum().item<std::int64_t>();
  if (count == 0) return {};
  const std::int64_t first = wrong.to(at::kByte).argmax().item<std::int64_t>();
  const double value = values.flatten()[first].item<double>();
  return fmt::format("{} at index {}{}", value, first,
                     count > 1 ? fmt::format(" and {} more", count - 1) : "");
}

}  // namespace hooked::weights
