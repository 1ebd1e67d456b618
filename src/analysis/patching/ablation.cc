#include "hooked/analysis/ablation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/patching/sweep_grid.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

constexpr const char* kAblation = "ablation";

/// Whether a place given by a user is a part, or contains it.
bool holds(const Address& given, const Address& part) {
  if (given.name() != part.name()) return false;
  return given.indices().empty() || given == part;
}

Address resolved(const Address& given, const PointIndex& points, std::int64_t n_heads) {
  const ActivationName name = points.name(points.require(points.resolve(given.name())));
  Address address = name;
  for (const auto& [axis, index] : given.indices().entries()) {
    const auto* head = std::get_if<std::int64_t>(&index.value);
    if (axis_on(name.site, axis) != Axis::head || head == nullptr || *head < -n_heads || *head >= n_heads) {
      throw HookError(given.to_string(),
                      fmt::format("parts are whole heads and MLPs; expected at most one head from {} to {}",
                                  -n_heads, n_heads - 1));
    }
    address = address.head(*head < 0 ? *head + n_heads : *head);
  }
  return address;
}

SweepReport report_of(const HookedTransformer& model, const AblationOptions& options, OnFailure on_failure) {
  require_own_places(options.sweep, kAblation, "sets say what is ablated");
  if (options.sets.empty())
    throw HookError(kAblation, "there is nothing to ablate; expected at least one set");
  SweepOptions sweep = options.sweep;
  GridAxis axis{.name = "set", .labels = {}};
  for (const std::vector<Address>& set : options.sets) {
    std::vector<std::string> names;
    for (const Address& address : set) names.push_back(address.to_string());
    axis.labels.push_back((options.complement ? "all but " : "") +
                          fmt::format("{}", fmt::join(names, " + ")));
    sweep.table.push_back(options.complement ? parts_besides(model, set) : set);
  }
  const SweepInput into(model, sweep.into);
  CellPlan plan = cells_of_table(model, sweep, into);
  plan.title = "Ablation";
  plan.axes = {std::move(axis)};
  return swept(model, options.sweep, into, plan, on_failure);
}

}  // namespace

std::vector<ModelPart> model_parts(const HookedTransformer& model) {
  std::vector<ModelPart> parts;
  for (const StreamWriter& writer : sublayers(model.config())) parts.push_back({writer.label, writer.place});
  return parts;
}

std::vector<Address> parts_besides(const HookedTransformer& model, const std::vector<Address>& parts) {
  const PointIndex& points = model.points();
  const std::vector<ModelPart> all = model_parts(model);
  std::vector<Address> kept;
  for (const Address& given : parts) {
    kept.push_back(resolved(given, points, model.config().n_heads));
    if (std::none_of(all.begin(), all.end(),
                     [&](const ModelPart& part) { return holds(kept.back(), part.place); })) {
      throw HookError(
          given.to_string(),
          fmt::format("this is not a part of the model; expected what a sublayer writes at ({}), of "
                      "attention z or z of one head",
                      points_of(sublayers(model.config()))));
    }
  }
  std::vector<Address> others;
  for (const ModelPart& part : all) {
    if (std::none_of(kept.begin(), kept.end(), [&](const Address& own) { return holds(own, part.place); }))
      others.push_back(part.place);
  }
  return others;
}

Grid ablate(const HookedTransformer& model, const AblationOptions& options) {
  return report_of(model, options, OnFailure::throws).grid;
}

SweepReport ablate_report(const HookedTransformer& model, const AblationOptions& options) {
  return report_of(model, options, OnFailure::is_listed);
}

}  // namespace hooked
