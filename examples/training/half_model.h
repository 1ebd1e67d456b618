#pragma once

#include "examples/training/training_options.h"
#include "hooked/core/model_config.h"
#include "hooked/engine/trainable_transformer.h"

namespace training {

/// Trains a model of that config and saves it with its weights in float16, which makes the file half as
/// large. To compute in float32, load it with `{.dtype = at::kFloat}`. Uses one thread: small matrices gain
/// nothing from more.
void train_half_model(const hooked::ModelConfig& config, const Options& options,
                      void (*train)(const hooked::TrainableTransformer& model, const Options& options));

}  // namespace training
