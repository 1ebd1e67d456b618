#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "hooked/core/model_config.h"
#include "hooked/hooks/point_index.h"
#include "hooks/hook_point.h"
#include "hooks/nn.h"
#include "models/storage/matrix.h"
#include "models/storage/weight_slot.h"
#include "models/storage/workspace.h"

namespace hooked {

/// Parameters of identical modules, stored together: one tensor for all of the same name, so that one product
/// can read them all. Each module's parameter is its part of that tensor's memory.
class ParameterStack {
 public:
  /// For that many modules.
  explicit ParameterStack(std::int64_t modules) : modules_(modules) {}

  /// The parameter `name` of the module with that number, uninitialised; all modules use the same sizes.
  at::Tensor part(const std::string& name, std::int64_t module, at::IntArrayRef sizes,
                  const at::TensorOptions& options);
  /// All of that name, [module, sizes]; undefined if the modules have no such parameter.
  at::Tensor whole(const std::string& name) const;

 private:
  std::int64_t modules_;
  std::map<std::string, at::Tensor> wholes_;
};

/// What a module is built from.
struct GraphContext {
  const ModelConfig& config;
  const PointIndex& points;
  at::TensorOptions options;  ///< dtype and device of the module's weights
  Storage storage = Storage::fastest;
  Workspace memory = {};  ///< of the module's weights
  Stack stack = Stack::none;
  std::int64_t layer = -1;
  std::int64_t expert = -1;
  /// Stores an expert's parameters next to those of the others; null: each is separate.
  ParameterStack* stack_of_experts = nullptr;
  /// The device can multiply each stretch of rows by a matrix of its own, in one kernel and in this dtype,
  /// without the host knowing how long the stretches are.
  bool multiplies_groups = false;
};

using Point = std::shared_ptr<HookPoint>;

/// A plain container module, so that `blocks.0` and `experts.3` are levels of the path.
class Folder : public torch::nn::Module {};

/// Whether this config has the site in that place.
bool has_point(Site site, const GraphContext& context);

/// Registers the HookPoint of `site` in `owner` under the last part of its path; null if this config does not
/// have the site.
Point add_point(torch::nn::Module& owner, Site site, const GraphContext& context);

/// Registers an uninitialised parameter, frozen.
at::Tensor add_parameter(torch::nn::Module& owner, const char* name, at::IntArrayRef sizes,
                         const GraphContext& context);

/// Registers an uninitialised matrix [out, in] for ops::linear, frozen.
Matrix add_matrix(torch::nn::Module& owner, const char* name, std::int64_t out, std::int64_t in,
                  Matrix::Groups groups, const GraphContext& context);

/// The same for an embedding [rows, size], whose rows are looked up: plain, unless it is stored in codes.
Matrix add_rows(torch::nn::Module& owner, const char* name, std::int64_t rows, std::int64_t size,
                const GraphContext& context);

}  // namespace hooked
