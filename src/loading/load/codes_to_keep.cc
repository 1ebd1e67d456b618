#include "loading/load/codes_to_keep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "hooked/core/error.h"

namespace hooked {

bool has_codes(const SourceTensors& source) {
  return std::ranges::any_of(source, [](const auto& tensor) { return tensor.second.codes.has_value(); });
}

bool keeps_codes(const SourceTensors& source, const LoadOptions& options,
                 const WeightProcessing& processing) {
  if (options.weights != WeightStorage::stored) return false;
  if (!has_codes(source)) {
    throw ConfigError("weights",
                      "none can stay as they are stored; expected quantised weights, got files without "
                      "any in a form that products decode; load them expanded");
  }
  if (!options.device.all().front().starts_with("cpu")) {
    throw ConfigError(
        "weights",
        "they can stay as they are stored on the CPU only; expected the device cpu, got another; "
        "load them expanded");
  }
  if (processing.insists() && processing != WeightProcessing::none()) {
    std::vector<std::string_view> steps;
    for (const ProcessingStep step : kProcessingSteps) {
      if (processing.wants(step)) steps.push_back(processing_step_name(step));
    }
    throw ConfigError("weights",
                      fmt::format("processing changes them, so they cannot stay as they are stored; expected "
                                  "no steps, got {}; leave the steps out, or load the weights expanded",
                                  fmt::join(steps, ", ")));
  }
  return true;
}

constexpr const char* kKept = "the weights stay as they are stored";
constexpr const char* kNotRequested = "not requested";

void report_kept_codes(std::vector<StepReport>& report, const WeightProcessing& wanted) {
  for (StepReport& step : report) {
    if (wanted.wants(step.step) && step.outcome == kNotRequested) step.outcome = kKept;
  }
}

void report_expanded(std::vector<StepReport>& report) {
  for (StepReport& step : report) {
    if (step.outcome == kKept) step.outcome = kNotRequested;
  }
}

}  // namespace hooked
