#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "hooked/core/model_config.h"

namespace hooked {

/// Fills a contiguous tensor on the CPU with the elements from number `first` on.
using ElementReader = std::function<void(std::int64_t first, const at::Tensor& into)>;

/// Where named tensors come from: a checkpoint's files, or tensors in memory.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::vector<std::string> names() const = 0;
  /// A tensor of the right shape and dtype without memory (meta device). Throws CheckpointError for one that
  /// cannot be a weight.
  virtual at::Tensor shape_of(const std::string& name) const = 0;
  /// The tensor. It may be asked for once only.
  virtual at::Tensor read(const std::string& name) = 0;
  /// How the elements of a tensor that lies in order are read without all of it, or nothing where it must be
  /// read whole.
  virtual std::optional<ElementReader> elements(const std::string& name) const = 0;
  /// The file the tensor is in, for errors.
  virtual std::string where(const std::string& name) const = 0;
};

/// Which of the source's tensors make a model of which config.
struct WeightPlan {
  ModelConfig config;                 ///< as read, untied where the files hold two different matrices
  std::vector<TensorRecipe> recipes;  ///< that can be followed, with the source's own names
  std::vector<std::string> notes;
};

/// Takes the unembedding out of `read` where the files, whose tensors are called `names`, hold nothing of the
/// family's head; says so in the notes it returns.
std::vector<std::string> settle_head(const std::vector<std::string>& names, const Family& family,
                                     FamilyConfig& read);

/// Finds what the family's recipes need. Every name, dtype and shape is checked against the config; a tied
/// model's two matrices are compared where there are two, and nothing else is read. Throws CheckpointError
/// listing what is missing or misshapen.
WeightPlan plan_weights(WeightSource& source, const Family& family, FamilyConfig read);

}  // namespace hooked
