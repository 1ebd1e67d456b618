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

// What the static functions of HookedTransformer and TrainableTransformer return a handle of; they say what
// is thrown.

/// The memory of a model's weights there, for the error.
MemoryUse memory_of_weights(std::string_view door, const std::vector<c10::Device>& devices);

/// A model folder, a file of weights, or `org/name[@revision]` in the local hub cache.
std::shared_ptr<LoadedModel> load_model(std::string_view id, const LoadOptions& options);

/// A model of weights under TransformerLens's names.
std::shared_ptr<LoadedModel> load_state_dict(StateDict weights, const ModelConfig& config,
                                             const LoadOptions& options);

/// The config.json of a native folder of the model.
std::string config_json_of(const LoadedModel& model);

/// A model with fresh random weights, raw.
std::shared_ptr<LoadedModel> create_model(const ModelConfig& config, const CreateOptions& options,
                                          Storage storage = Storage::fastest);

/// A model of its own with the same weights and everything that goes with them, on the same devices.
std::shared_ptr<LoadedModel> copy_model(const LoadedModel& model, Storage storage = Storage::fastest);
/// The same elsewhere.
std::shared_ptr<LoadedModel> copy_model(const LoadedModel& model, const Placement& placement,
                                        Storage storage = Storage::fastest);

}  // namespace hooked
