#pragma once

#include <map>
#include <string>
#include <vector>

#include "families/family.h"
#include "hooked/core/model_config.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// A model's config, and which of the source's tensors its weights come from.
struct WeightPlan {
  ModelConfig config;                 ///< as read; untied if the files have two different matrices
  std::vector<TensorRecipe> recipes;  ///< that can be applied, with the source's own names
  std::vector<std::string> notes;
};

/// Removes the family's optional part from `read` if the files contain nothing of it; the returned notes say
/// so.
std::vector<std::string> resolve_optional_part(const SourceTensors& source, const Family& family,
                                               FamilyConfig& read);

/// What else is known about the source.
struct PlanOptions {
  /// Tensors that it lacks but should have, and why it lacks them.
  const std::map<std::string, std::string>& absent;
};

/// Finds what the family's recipes need. Every name, dtype and shape is checked against the config. A tied
/// model's two matrices are compared if there are two; nothing else is read. Throws CheckpointError listing
/// what is missing or misshapen.
WeightPlan plan_weights(const SourceTensors& source, const Family& family, FamilyConfig read);
WeightPlan plan_weights(const SourceTensors& source, const Family& family, FamilyConfig read,
                        const PlanOptions& options);

}  // namespace hooked
