#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "hooked/engine/hooked_transformer.h"
#include "tests/support/process_memory.h"

namespace hooked {

/// Loads a model; while it does, this process holds hardly more than the weights: 15 % and `buffers` bytes
/// more, which do not depend on the model's size. A copy of the tests' vocabularies in float32 would be 39
/// MiB. Returns the bytes of the weights.
inline std::int64_t load_in_its_size(const std::string& path, const LoadOptions& options,
                                     std::int64_t buffers = std::int64_t{24} << 20) {
  HookedTransformer::load(path, options);  // code and threads are loaded from now on
  const PeakMemory held;
  const auto model = HookedTransformer::load(path, options);
  const std::int64_t peak = held.bytes();
  std::int64_t weights = 0;
  for (const auto& [name, values] : model.state_dict()) weights += static_cast<std::int64_t>(values.nbytes());
  EXPECT_GT(weights, std::int64_t{40} << 20);
  EXPECT_LE(peak, weights + weights * 15 / 100 + buffers) << "weights are " << weights << " bytes";
  EXPECT_GE(peak, weights / 2) << "the measurement misses the model";
  testing::Test::RecordProperty("peak_by_weights",
                                std::to_string(static_cast<double>(peak) / static_cast<double>(weights)));
  return weights;
}

}  // namespace hooked
