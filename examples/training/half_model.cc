#include "half_model.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "hooked/engine/hooked_transformer.h"

namespace training {
namespace {

void save_in_half(const hooked::HookedTransformer& model, const std::filesystem::path& folder) {
  hooked::StateDict weights;
  for (const auto& [name, weight] : model.state_dict()) weights.emplace(name, weight.to(at::kHalf));
  auto config = model.config();
  config.dtype = at::kHalf;
  hooked::HookedTransformer::from_state_dict(
      std::move(weights), config, {.dtype = at::kHalf, .processing = hooked::WeightProcessing::none()})
      .save(folder);
}

}  // namespace

void train_half_model(const hooked::ModelConfig& config, const Options& options,
                      void (*train)(const hooked::TrainableTransformer& model, const Options& options)) {
  at::set_num_threads(1);
  const auto model = hooked::TrainableTransformer::create(config, {.seed = options.seed});
  fmt::print(stderr, "training {} parameters for {} steps\n", model.config().parameter_count(),
             options.steps);
  train(model, options);
  save_in_half(model.freeze(), options.out);
  fmt::print("wrote {}\n", options.out.string());
}

}  // namespace training
