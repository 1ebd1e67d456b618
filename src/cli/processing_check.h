#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "options/command_options.h"

namespace hooked::cli {

/// The difference between a model that was processed on loading and the same model as stored.
struct ProcessingCheck {
  double largest;        ///< difference of a log-probability, in nats
  std::int64_t tokens;   ///< random tokens that both models read
  at::ScalarType dtype;  ///< in which both models ran
};

/// Loads the model twice and compares its predictions. Entries with a probability below e^-100 are left out:
/// masked ones have none. Throws ConfigError for a model without an unembedding.
ProcessingCheck check_processing(const ModelOptions& options);

}  // namespace hooked::cli
