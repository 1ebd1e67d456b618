#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "options/command_options.h"

namespace hooked::cli {

/// How far a model that was processed when it was loaded is from the same model as it is stored.
struct ProcessingCheck {
  double largest;        ///< difference of a log-probability, in nats
  std::int64_t tokens;   ///< random tokens that both read
  at::ScalarType dtype;  ///< in which both ran
};

/// Loads the model twice and compares what they predict. Entries with a probability below e^-100 are left
/// out: masked ones have none. Throws ConfigError for a model without an unembedding.
ProcessingCheck check_processing(const ModelOptions& options);

}  // namespace hooked::cli
