#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"
#include "models/families/family.h"

namespace hooked {

/// Where named tensors come from: a checkpoint's files, or tensors in memory.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::vector<std::string> names() const = 0;
  /// A tensor of the right shape and dtype without memory (meta device).
  virtual at::Tensor shape_of(const std::string& name) const = 0;
  virtual at::Tensor read(const std::string& name) = 0;
  /// The file the tensor is in, for errors.
  virtual std::string where(const std::string& name) const = 0;
};

struct GatheredWeights {
  ModelConfig config;  ///< as read, untied where the files hold two different matrices
  StateDict weights;
  std::vector<std::string> notes;
};

/// Takes the unembedding out of `read` where the files, whose tensors are called `names`, hold nothing of the
/// family's head; says so in the notes it returns.
std::vector<std::string> settle_head(const std::vector<std::string>& names, const Family& family,
                                     FamilyConfig& read);

/// Our tensors out of theirs by a family's recipes. Every name and shape is checked against the config before
/// the first tensor is read. Throws CheckpointError listing what is missing, superfluous or misshapen.
GatheredWeights gather_weights(WeightSource& source, const Family& family, FamilyConfig read);

}  // namespace hooked
