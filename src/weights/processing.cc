#include "hooked/weights/processing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/core/nearest.h"
#include "weights/steps.h"
#include "weights/working_weights.h"

namespace hooked {
namespace {

using weights::Obstacle;
using weights::StepDefinition;
using weights::WorkingWeights;

/// The table of steps, in the order of kProcessingSteps.
const std::array<StepDefinition, kProcessingSteps.size()>& step_table() {
  static const std::array table = {weights::fold_ln_step(), weights::center_writing_weights_step(),
                                   weights::center_unembed_step(), weights::fold_value_biases_step(),
                                   weights::refactor_attention_step()};
  return table;
}

/// A step that will be applied, and the config of the model it meets.
struct Scheduled {
  const StepDefinition* step;
  ModelConfig before;
};

struct Plan {
  std::vector<Scheduled> steps;
  std::vector<StepReport> report;
  ModelConfig after;
};

[[noreturn]] void refuse(const StepDefinition& step, const std::string& reason) {
  throw ConfigError(
      step.name,
      fmt::format("the step would change what this model computes; expected a model that it leaves "
                  "unchanged, got one where {}; leave {} out, or process only what applies",
                  reason, step.name));
}

Plan plan(const ModelConfig& config, const WeightProcessing& processing) {
  config.validate();
  for (const std::string& applied : config.processing) parse_processing_step(applied);  // throws for others
  const auto recorded = [&](const StepDefinition& step) {
    return std::ranges::find(config.processing, step.name) != config.processing.end();
  };
  if (recorded(weights::fold_ln_step()) && !config.norm_folded) {
    throw ConfigError("processing",
                      "fold_ln is recorded as applied, but the norms have weights; expected a folded "
                      "normalization_type (LNPre or RMSPre), or a record without fold_ln");
  }
  Plan plan{.steps = {}, .report = {}, .after = config};
  const auto outcome = [&](const StepDefinition& step) -> std::string {
    if (recorded(step)) return "already applied";
    if (!processing.wants(step.step)) return "not requested";
    if (const auto obstacle = step.obstacle(plan.after)) {
      if (processing.insists() && obstacle->kind == Obstacle::Kind::would_change)
        refuse(step, obstacle->reason);
      return obstacle->reason;
    }
    plan.steps.push_back({&step, plan.after});
    step.update(plan.after);
    plan.after.processing.emplace_back(step.name);
    return "applied";
  };
  for (const StepDefinition& step : step_table()) plan.report.push_back({step.step, outcome(step)});
  return plan;
}

}  // namespace

std::string_view processing_step_name(ProcessingStep step) noexcept {
  return step_table()[static_cast<std::size_t>(step)].name;
}

ProcessingStep parse_processing_step(std::string_view name) {
  std::vector<std::string> names;
  for (const StepDefinition& step : step_table()) {
    if (step.name == name) return step.step;
    names.emplace_back(step.name);
  }
  throw ConfigError("processing",
                    fmt::format("unknown processing step; expected one of {}, got \"{}\"; did you mean "
                                "{}?",
                                fmt::join(names, ", "), name, nearest(name, names)));
}

WeightProcessing WeightProcessing::only(const std::vector<ProcessingStep>& steps) {
  WeightProcessing processing;
  processing.wanted_.fill(false);
  processing.insists_ = true;
  for (const ProcessingStep step : steps) processing.wanted_[static_cast<std::size_t>(step)] = true;
  return processing;
}

bool WeightProcessing::wants(ProcessingStep step) const noexcept {
  return wanted_[static_cast<std::size_t>(step)];
}

std::vector<StepReport> plan_processing(const ModelConfig& config, const WeightProcessing& processing) {
  return plan(config, processing).report;
}

ProcessedWeights process_weights(StateDict weights, const ModelConfig& config,
                                 const WeightProcessing& processing) {
  Plan planned = plan(config, processing);
  const auto run = [&](std::optional<std::int64_t> layer, auto apply) {
    WorkingWeights working(weights, config, layer);
    for (const Scheduled& scheduled : planned.steps) (scheduled.step->*apply)(working, scheduled.before);
    working.commit();
  };
  if (!planned.steps.empty()) {
    run(std::nullopt, &StepDefinition::apply_to_ends);
    for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
      run(layer, &StepDefinition::apply_to_block);
    }
  }
  return {std::move(weights), std::move(planned.after), std::move(planned.report)};
}

}  // namespace hooked
