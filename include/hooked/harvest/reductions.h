#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/io/provenance.h"

namespace HOOKED_EXPORT hooked {

/// Sums over the rows of one activation, from which means, covariances and whitening follow. Its axes count
/// as one of d places.
struct ActivationMoments {
  std::int64_t rows = 0;            ///< that were summed
  at::Tensor sum = {};              ///< [d] float64
  at::Tensor second_moment = {};    ///< [d, d] float64: the sum of x xᵀ
  std::vector<std::int64_t> shape;  ///< of one row

  at::Tensor mean() const;        ///< the activation's shape, float64
  at::Tensor covariance() const;  ///< [d, d] float64, divided by the number of rows

  /// What a harvest with ReductionOptions::moments wrote, by activations' names. Throws IoError,
  /// CheckpointError.
  static std::map<std::string, ActivationMoments> load(const std::filesystem::path& folder);
};

/// The tokens at which features of a dictionary were largest.
struct FeatureExamples {
  at::Tensor values = {};     ///< [feature, example], descending; 0 after the last one that fired
  at::Tensor documents = {};  ///< [feature, example] int64; -1 where there is none
  at::Tensor offsets = {};    ///< [feature, example] int64: the token's place in its document
  /// [feature, example, window] int32: the tokens around it in its context; -1 where there are none.
  at::Tensor tokens = {};
  std::int64_t before = 0;     ///< the token of the example has that place in the window
  at::Tensor fired = {};       ///< [feature] int64: at how many rows
  std::int64_t rows = 0;       ///< that were looked at
  Provenance provenance = {};  ///< the model and its dictionaries

  /// What a harvest with ReductionOptions::examples wrote, by names of codes. Throws IoError,
  /// CheckpointError.
  static std::map<std::string, FeatureExamples> load(const std::filesystem::path& folder);
};

}  // namespace hooked
