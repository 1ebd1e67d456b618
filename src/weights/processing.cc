#include "hooked/weights/processing.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/nearest.h"
#include "core/option_names.h"
#include "hooked/core/error.h"
#include "weights/processor.h"

namespace hooked {
namespace {

static_assert(kProcessingStepNames.size() == kProcessingSteps.size());

weights::StoredWeights stored_in(const StateDict& dict) {
  return [&dict](const std::string& name) -> std::optional<StoredTensor> {
    const auto found = dict.find(name);
    if (found == dict.end() || !found->second.defined()) return std::nullopt;
    return in_memory(found->second);
  };
}

}  // namespace

std::string_view processing_step_name(ProcessingStep step) noexcept {
  return kProcessingStepNames[static_cast<std::size_t>(step)];
}

ProcessingStep parse_processing_step(std::string_view name) {
  for (const ProcessingStep step : kProcessingSteps) {
    if (processing_step_name(step) == name) return step;
  }
  const std::vector<std::string> names(kProcessingStepNames.begin(), kProcessingStepNames.end());
  throw ConfigError("processing", fmt::format("unknown processing step; expected one of {}, got \"{}\"{}",
                                              fmt::join(names, ", "), name,
                                              nearest_text("; did you mean {}?", name, names)));
}

WeightProcessing WeightProcessing::only(const std::vector<ProcessingStep>& steps) {
  WeightProcessing processing;
  processing.wanted_.fill(false);
  processing.insists_ = true;
  for (const ProcessingStep step : steps) processing.wanted_[static_cast<std::size_t>(step)] = true;
  return processing;
}

WeightProcessing WeightProcessing::without(ProcessingStep step) const {
  WeightProcessing less = *this;
  less.wanted_[static_cast<std::size_t>(step)] = false;
  return less;
}

bool WeightProcessing::wants(ProcessingStep step) const noexcept {
  return wanted_[static_cast<std::size_t>(step)];
}

std::vector<StepReport> plan_processing(const ModelConfig& config, const WeightProcessing& processing) {
  return weights::Processor(config, processing).report();
}

ProcessedWeights process_weights(StateDict weights, const ModelConfig& config,
                                 const WeightProcessing& processing) {
  const at::NoGradGuard no_grad;
  const weights::Processor processor(config, processing, stored_in(weights));
  for (const WeightPart& part : weight_parts(config)) {
    StateDict made;
    const weights::Changes changes = processor.changes(stored_in(weights), part);
    for (const auto& [name, change] : changes) {
      if (!change) continue;
      const auto& [weight, dtype] = *change;
      at::Tensor& values = made[name] =
          at::empty(weight.shape(), at::TensorOptions(dtype).device(weight.device()));
      weight.write(writer_of(values), dtype);
    }
    for (const auto& [name, change] : changes) weights.erase(name);
    weights.merge(made);
  }
  return {std::move(weights), processor.after(), processor.report()};
}

}  // namespace hooked
