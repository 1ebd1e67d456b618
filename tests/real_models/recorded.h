#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "hooked/io/safetensors.h"

namespace hooked::real_models {

inline const std::filesystem::path kRecorded =
    std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/real_models";

inline Json recorded_words(const std::string& model) {
  return Json::parse(std::ifstream(kRecorded / (model + ".json")));
}

inline std::vector<std::int64_t> recorded_ids(const Json& ids) {
  return ids.get<std::vector<std::int64_t>>();
}

/// [size, 4] weights in [-1, 1), as `projection_weights` of tests/golden/makers/real_models.py draws them.
inline at::Tensor projection_weights(std::string_view name, std::int64_t size) {
  std::uint64_t seed = 0xCBF29CE484222325;  // FNV-1a of the name
  for (const unsigned char byte : name) seed = (seed ^ byte) * 0x100000001B3;
  at::Tensor weights = at::empty({size, 4}, at::kDouble);
  double* weight = weights.mutable_data_ptr<double>();
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(size); ++i) {
    for (std::uint64_t j = 0; j < 4; ++j) {
      std::uint64_t z = seed + (j << 32) + i + 0x9E3779B97F4A7C15;  // splitmix64
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
      z ^= z >> 31;
      *weight++ = 2 * static_cast<double>(z >> 11) * 0x1p-53 - 1;
    }
  }
  return weights;
}

/// Holds `rows` [row, size] to what was recorded of them under `name`, with `tolerance` times max(1, max |x|)
/// for each number. A projection is a sum of `size` numbers, whose independent errors add up to sqrt(size) of
/// one.
inline void expect_recorded(const SafetensorsFile& file, const std::string& name, const at::Tensor& rows,
                            double tolerance) {
  const at::Tensor x = rows.to(at::kCPU, at::kDouble);
  const at::Tensor largest = file.read(name + ".largest");  // [row]
  ASSERT_EQ(x.size(0), largest.size(0)) << name;
  const double allowed = tolerance * std::max(1.0, largest.max().item<double>());
  const auto distance = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().max().item<double>();
  };
  EXPECT_LE(distance(x.abs().amax(-1), largest), allowed) << name << ": the largest of each row";
  EXPECT_LE(distance(x.gather(-1, file.read(name + ".top_places")), file.read(name + ".top")), allowed)
      << name << ": the numbers at the recorded places";
  EXPECT_LE(distance(x.matmul(projection_weights(name, x.size(-1))), file.read(name + ".projections")),
            allowed * std::sqrt(static_cast<double>(x.size(-1))))
      << name << ": the projections";
}

}  // namespace hooked::real_models
