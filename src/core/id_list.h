#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace hooked {

/// The numbers of an int64 tensor of any shape and device, in row-major order.
inline std::vector<std::int64_t> id_list(const at::Tensor& ids) {
  const at::Tensor here = ids.to(at::kCPU, at::kLong).contiguous();
  return {here.const_data_ptr<std::int64_t>(), here.const_data_ptr<std::int64_t>() + here.numel()};
}

/// The index of each number in `among`, -1 if it is not there; for one that occurs several times, the first
/// index.
inline std::vector<std::int64_t> places_among(std::vector<std::int64_t> numbers,
                                              const std::vector<std::int64_t>& among) {
  std::unordered_map<std::int64_t, std::int64_t> places;
  for (std::size_t i = 0; i < among.size(); ++i) places.emplace(among[i], static_cast<std::int64_t>(i));
  for (std::int64_t& number : numbers) {
    const auto found = places.find(number);
    number = found == places.end() ? -1 : found->second;
  }
  return numbers;
}

}  // namespace hooked
