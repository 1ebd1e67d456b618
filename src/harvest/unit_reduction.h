#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harvest/contexts.h"
#include "harvest/manifest.h"
#include "hooked/harvest/activation_stream.h"
#include "hooked/harvest/harvest.h"

namespace hooked {

inline constexpr const char* kMomentsFile = "moments.safetensors";
inline constexpr const char* kExamplesFile = "examples.safetensors";

/// Throws ConfigError unless each reduction that is asked for has an activation that it reads.
void require_reducible(const std::vector<HarvestedName>& names, const ReductionOptions& options);

/// What ReductionOptions ask for, of one unit.
class UnitReduction {
 public:
  /// `contexts` are read by tensors(), too.
  UnitReduction(const std::vector<HarvestedName>& names, const Contexts& contexts,
                const ReductionOptions& options);

  void add(const ActivationRows& rows);
  /// By `NAME.sum` and so on.
  std::vector<std::pair<std::string, at::Tensor>> tensors() const;

 private:
  struct Moments {
    std::string name;
    at::Tensor sum, second_moment;
  };
  struct Examples {
    std::string name;
    at::Tensor values, documents, offsets, contexts, positions, fired;
  };

  at::Tensor windows(const Examples& examples) const;

  const Contexts& contexts_;
  ReductionOptions options_;
  std::int64_t rows_ = 0;
  std::vector<Moments> moments_;
  std::vector<Examples> examples_;
};

/// Sums up the units' reductions, in their order, in the files that ActivationMoments and FeatureExamples
/// load.
void join_reductions(const std::filesystem::path& folder, const Manifest& manifest,
                     const std::vector<UnitRecord>& units);

}  // namespace hooked
