#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/weight_table.h"
#include "hooked/core/model_config.h"
#include "weights/blocked_weight.h"
#include "weights/working_weights.h"

namespace hooked::weights {

/// A weight's numbers at evenly spaced places of the dimension that it is read along; all numbers if it is
/// small.
struct Sample {
  at::Tensor values;       ///< the weight's rank, float64
  at::Tensor places;       ///< indices into `dimension`, int64
  std::int64_t dimension;  ///< that was sampled
  at::ScalarType stored;   ///< the weight's own dtype
};

/// The numbers that a processing step looks at before it changes a model: as they are stored, with the dtype
/// that will store the results.
class StoredNumbers {
 public:
  /// Keeps references: both must live on.
  StoredNumbers(const StoredWeights& stored, const ModelConfig& config) : stored_(stored), config_(config) {}

  /// The weight `name` of a part of the model, by its name inside the block; nothing if there is none.
  std::optional<BlockedWeight> find(const WeightPart& part, std::string_view name) const;

  /// All of a weight in float64; undefined if there is none.
  at::Tensor values(const WeightPart& part, std::string_view name) const;

  /// Some of the weight; `also` are further indices of `axis` to include if that axis is sampled. Nothing if
  /// the weight does not exist.
  std::optional<Sample> sample(const WeightPart& part, std::string_view name, Axis axis,
                               std::vector<std::int64_t> also = {}) const;

  /// The weight's name in the state dict.
  std::string name_of(const WeightPart& part, std::string_view name) const;

  /// The dtype that a changed weight is rounded to: the wider of its own and the config's.
  at::ScalarType kept_dtype(at::ScalarType stored) const;

 private:
  std::optional<StoredTensor> tensor(const WeightPart& part, std::string_view name) const;

  const StoredWeights& stored_;
  const ModelConfig& config_;
};

/// The distance from 1 to the next number of a dtype.
double epsilon_of(at::ScalarType dtype);

/// How many times as large as their spread a shift of some numbers may be: with a larger shift, `dtype` loses
/// their differences.
double largest_shift(at::ScalarType dtype);

/// The first number that is not finite, in words (`-inf at index 3`); empty if all are finite.
std::string not_finite(const at::Tensor& values);

}  // namespace hooked::weights
