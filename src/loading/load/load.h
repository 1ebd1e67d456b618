#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/out_of_memory.h"
#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"
#include "hooked/loading/load_options.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

// The static functions of HookedTransformer and TrainableTransformer return handles of these models; they
// document what is thrown.

/// The memory of a model's weights on these devices, for the error.
MemoryUse memory_of_weights(std::string_view door, const std::vector<c10::Device>& devices);

/// A model folder, a file of weights, or `org/name[@revision]` in the local hub cache.
std::shared_ptr<LoadedModel> load_model(std::string_view id, const LoadOptions& options);

/// A model with weights under TransformerLens's names.
std::shared_ptr<LoadedModel> load_state_dict(StateDict weights, const ModelConfig& config,
                                             const LoadOptions& options);

/// The config.json that a native folder of the model gets.
std::string config_json_of(const LoadedModel& model);

/// A model with fresh random weights, raw.
std::shared_ptr<LoadedModel> create_model(const ModelConfig& config, const CreateOptions& options,
                                          Storage storage = Storage::fastest);

/// A separate model with the same weights and all that belongs to them, on the same devices.
std::shared_ptr<LoadedModel> copy_model(const LoadedModel& model, Storage storage = Storage::fastest);
/// The same on other devices.
std::shared_ptr<LoadedModel> copy_model(const LoadedModel& model, const Placement& placement,
                                        Storage storage = Storage::fastest);

}  // namespace hooked
