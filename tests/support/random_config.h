#pragma once

#include <cstdint>

#include "hooked/core/model_config.h"

namespace hooked {

/// A small config (2 layers, d_model at most 24, d_vocab at most 24, n_ctx 8) that validate() accepts, the
/// same for the same seed on every machine. Over the seeds every value of every option occurs, alone and in
/// pairs where the pair is allowed; the product of heads and their width often differs from d_model, and
/// d_mlp and d_vocab sometimes equal it. The dtype is float32 and no processing is recorded: callers set
/// both.
ModelConfig random_config(std::uint64_t seed);

}  // namespace hooked
