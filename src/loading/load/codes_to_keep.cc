#include "loading/load/codes_to_keep.h"

#include <algorithm>

#include "hooked/core/error.h"

namespace hooked {

bool keeps_codes(const SourceTensors& source, const LoadOptions& options,
                 const WeightProcessing& processing) {
  if (options.weights != WeightStorage::stored) return false;
  const bool any =
      std::ranges::any_of(source, [](const auto& tensor) { return tensor.second.codes.has_value(); });
  if (!any) {
    throw ConfigError("weights",
                      "none can stay as they are stored; expected a GGUF file with quantised weights, got "
                      "files without any; load them expanded");
  }
  if (!options.device.all().front().starts_with("cpu")) {
    throw ConfigError(
        "weights",
        "they can stay as they are stored on the CPU only; expected the device cpu, got another; "
        "load them expanded");
  }
  if (processing.insists() && processing != WeightProcessing::none()) {
    throw ConfigError(
        "weights",
        "processing changes them, so they cannot stay as they are stored; expected no steps, got "
        "some; leave the steps out, or load the weights expanded");
  }
  return true;
}

void report_kept_codes(std::vector<StepReport>& report, const WeightProcessing& wanted) {
  for (StepReport& step : report) {
    if (wanted.wants(step.step) && step.outcome == "not requested")
      step.outcome = "the weights stay as they are stored";
  }
}

}  // namespace hooked
