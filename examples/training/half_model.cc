#include "half_model.h"

#include <ATen/core/Tensor.h>

#include <utility>

namespace training {

void save_in_half(const hooked::HookedTransformer& model, const std::filesystem::path& folder) {
  hooked::StateDict weights;
  for (const auto& [name, weight] : model.state_dict()) weights.emplace(name, weight.to(at::kHalf));
  auto config = model.config();
  config.dtype = at::kHalf;
  hooked::HookedTransformer::from_state_dict(
      std::move(weights), config, {.dtype = at::kHalf, .processing = hooked::WeightProcessing::none()})
      .save(folder);
}

}  // namespace training
