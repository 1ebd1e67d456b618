#include "weights/processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "hooked/core/error.h"

namespace hooked::weights {
namespace {

[[noreturn]] void refuse(const StepDefinition& step, const std::string& reason) {
  throw ConfigError(
      processing_step_name(step.step),
      fmt::format("the step would change what this model computes; expected a model that it leaves "
                  "unchanged, got one where {}; leave {} out, or process only what applies",
                  reason, processing_step_name(step.step)));
}

// The steps, in the order of kProcessingSteps.
const std::array<StepDefinition, kProcessingSteps.size()>& step_table() {
  static const std::array table = {fold_ln_step(), center_writing_weights_step(), center_unembed_step(),
                                   fold_value_biases_step(), refactor_attention_step()};
  return table;
}

bool recorded(const StepDefinition& step, const ModelConfig& config) {
  return std::ranges::find(config.processing, processing_step_name(step.step)) != config.processing.end();
}

}  // namespace

Processor::Processor(const ModelConfig& config, const WeightProcessing& processing,
                     const StoredWeights& numbers)
    : config_(config), after_(config) {
  config.validate();
  for (const std::string& applied : config.processing) parse_processing_step(applied);  // throws for others
  if (recorded(fold_ln_step(), config) && !config.norm_folded) {
    throw ConfigError("processing",
                      "fold_ln is recorded as applied, but the norms have weights; expected a folded "
                      "normalization_type (LNPre or RMSPre), or a record without fold_ln");
  }
  for (const StepDefinition& step : step_table()) {
    report_.push_back({step.step, outcome(step, processing, numbers)});
  }
}

// Schedules the step if it applies.
std::string Processor::outcome(const StepDefinition& step, const WeightProcessing& processing,
                               const StoredWeights& numbers) {
  if (recorded(step, config_)) return "already applied";
  if (!processing.wants(step.step)) return "not requested";
  if (const auto obstacle = step.obstacle(after_)) {
    if (processing.insists() && obstacle->kind == Obstacle::Kind::would_change)
      refuse(step, obstacle->reason);
    return obstacle->reason;
  }
  if (numbers) {
    for (const WeightPart& part : weight_parts(config_)) {
      const auto reason = step.risk(StoredNumbers(numbers, config_), part, after_);
      if (!reason) continue;
      if (processing.insists()) refuse(step, *reason);
      return *reason;
    }
  }
  steps_.push_back({&step, after_});
  step.update(after_);
  after_.processing.emplace_back(processing_step_name(step.step));
  return "applied";
}

Changes Processor::changes(const StoredWeights& stored, const WeightPart& part) const {
  WorkingWeights working(stored, config_, part);
  for (const auto& [step, before] : steps_) step->apply(working, before);
  return working.changes();
}

}  // namespace hooked::weights
