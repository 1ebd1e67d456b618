#pragma once

#include <vector>

#include "hooked/loading/load_options.h"
#include "hooked/weights/processing.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// Whether any of these tensors is stored in codes.
bool has_codes(const SourceTensors& source);

/// Whether quantised weights are to stay in codes (LoadOptions::weights). Throws ConfigError if they are and
/// cannot: there are none, they go to a GPU, or `processing` insists on steps, which would change the
/// numbers.
bool keeps_codes(const SourceTensors& source, const LoadOptions& options, const WeightProcessing& processing);

/// Says of the steps that were wanted why they were left out.
void report_kept_codes(std::vector<StepReport>& report, const WeightProcessing& wanted);
/// The reverse, for a copy whose weights are numbers.
void report_expanded(std::vector<StepReport>& report);

}  // namespace hooked
