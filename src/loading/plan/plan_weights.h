#pragma once

#include <map>
#include <string>
#include <vector>

#include "families/family.h"
#include "hooked/core/model_config.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// Which of the source's tensors make a model of which config.
struct WeightPlan {
  ModelConfig config;                 ///< as read, untied where the files hold two different matrices
  std::vector<TensorRecipe> recipes;  ///< that can be followed, with the source's own names
  std::vector<std::string> notes;
};

/// Takes the family's optional part out of `read` where the files hold nothing of it; says so in the notes it
/// returns.
std::vector<std::string> resolve_optional_part(const SourceTensors& source, const Family& family,
                                               FamilyConfig& read);

/// What else is known of the source.
struct PlanOptions {
  /// Tensors that it does not have and should, and why it does not.
  const std::map<std::string, std::string>& absent;
};

/// Finds what the family's recipes need. Every name, dtype and shape is checked against the config; a tied
/// model's two matrices are compared where there are two, and nothing else is read. Throws CheckpointError
/// listing what is missing or misshapen.
WeightPlan plan_weights(const SourceTensors& source, const Family& family, FamilyConfig read);
WeightPlan plan_weights(const SourceTensors& source, const Family& family, FamilyConfig read,
                        const PlanOptions& options);

}  // namespace hooked
