#include "io/files/checked_size.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace hooked {
namespace {

constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

}  // namespace

std::optional<std::uint64_t> checked_bytes(std::span<const std::int64_t> shape, std::uint64_t bits) {
  std::uint64_t product = bits;
  bool empty = false;
  for (const auto size : shape) {
    empty |= size == 0;
    // Zero counts as one: LibTorch multiplies strides this way, so [0, 2^62, 2^62] would wrap there.
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (product > kLargest / factor) return std::nullopt;
    product *= factor;
  }
  if (empty) return 0;
  if (product % 8 != 0) return std::nullopt;  // part of a byte: only the packed kinds can ask for it
  return product / 8;
}

std::optional<std::uint64_t> checked_span(std::span<const std::int64_t> shape,
                                          std::span<const std::int64_t> strides) {
  assert(shape.size() == strides.size());
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t span = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto steps = static_cast<std::uint64_t>(shape[i] - 1);
    const auto stride = static_cast<std::uint64_t>(strides[i]);
    if (steps == 0 || stride == 0) continue;
    if (stride > kLargest / steps || steps * stride > kLargest - span) return std::nullopt;
    span += steps * stride;
  }
  return span;
}

}  // namespace hooked
