#include "hooked/analysis/feature_patching.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/gradients/estimated_plan.h"
#include "analysis/patching/sweep_grid.h"
#include "analysis/patching/swept_names.h"
#include "analysis/values/row_major.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

constexpr const char* kNodes = "feature nodes";

/// The full name of the features. Throws HookError unless they are those of a dictionary inside a block.
ActivationName features_of(const HookedTransformer& model, const FeatureNodes& nodes) {
  const ActivationName& given = nodes.features.name();
  const PointIndex& points = model.points();
  const bool fits = given.site == Site::sae_acts_post && nodes.features.indices().empty();
  if (!fits || given.scope() != SiteScope::block) {
    throw HookError(nodes.features.to_string(),
                    "nodes are the features of one dictionary inside a block; expected its "
                    "hook_sae_acts_post, as in 'blocks.1.hook_resid_post.hook_sae_acts_post'");
  }
  return points.name(points.require(points.resolve(given)));
}

/// What of one point is patched: its layer, and positions if they are told apart.
SweepOptions at_point(const ActivationName& point, const FeatureNodes& nodes, const SweepOptions& options) {
  SweepOptions own = options;
  own.site = SweptSite(act::DictionarySite{point.site}, act::BlockSite{*point.host});
  own.stack = point.stack;
  own.over = {SweptAxis(Axis::layer, {point.layer})};
  if (nodes.by_position) own.over.emplace_back(Axis::pos);
  for (const SweptAxis& axis : options.over) {
    if (axis.axis == Axis::pos && nodes.by_position) {
      own.over[1] = axis;
    } else if (axis.axis == Axis::batch) {
      own.over.push_back(axis);
    } else {
      throw HookError(kNodes,
                      fmt::format("`over` names {}; expected {}", axis_name(axis.axis),
                                  nodes.by_position ? "batch or places on pos"
                                                    : "batch, as all positions are patched together"));
    }
  }
  return own;
}

/// A plan with a place more on its last axis, for the cells of another plan that lacks this axis.
CellPlan with_place(CellPlan plan, const std::string& label, CellPlan other) {
  const std::int64_t before = places_on(plan.axes.back());
  plan.axes.back().labels.push_back(label);
  if (!plan.axes.back().places.empty()) plan.axes.back().places.emplace_back();
  const auto kept = [before](std::int64_t cell) { return cell / before * (before + 1) + cell % before; };
  const auto added = [before](std::int64_t cell) { return cell * (before + 1) + before; };
  for (CellGroup& group : plan.groups) group = renumbered(std::move(group), kept);
  for (CellGroup& group : other.groups) plan.groups.push_back(renumbered(std::move(group), added));
  plan.patched.insert(plan.patched.end(), other.patched.begin(), other.patched.end());
  plan.check = [first = plan.check, second = other.check](SweptRow row) {
    first(row);
    second(row);
  };
  plan.record += "; " + other.record;
  return plan;
}

CellPlan plan_of_nodes(const HookedTransformer& model, const FeatureNodes& nodes, const SweepOptions& options,
                       const SweepInput& into) {
  if (options.site || !options.table.empty() || options.stack != Stack::none) {
    throw HookError(kNodes, "nodes say what is patched; expected neither `site`, `table` nor `stack`");
  }
  ActivationName point = features_of(model, nodes);
  const std::int64_t count = size_on(model, point, Axis::feature);
  SweepOptions own = at_point(point, nodes, options);
  SweptAxis features(Axis::feature, {nodes.which.begin(), nodes.which.end()});
  for (std::int64_t feature = 0; nodes.all && feature < count; ++feature)
    features.places.emplace_back(feature);
  if (nodes.all && !nodes.which.empty())
    throw HookError(kNodes, "`which` and `all` each say which features are patched; expected one");
  own.over.push_back(features);
  // The layer is one place, and no axis of the grid.
  const auto without_layer = [](CellPlan plan) {
    plan.axes.erase(plan.axes.begin());
    return plan;
  };
  CellPlan plan = without_layer(make_plan(model, own, into));
  if (nodes.errors) {
    point.site = Site::sae_error;
    plan = with_place(std::move(plan), "error",
                      without_layer(make_plan(model, at_point(point, nodes, options), into)));
  }
  plan.title = fmt::format("Patching features of {}", point.place().to_string());
  return plan;
}

SweepReport swept_nodes(const HookedTransformer& model, const FeatureNodes& nodes,
                        const SweepOptions& options, OnFailure on_failure) {
  const SweepInput into(model, options.into);
  return swept(model, rows_alone(options), into, plan_of_nodes(model, nodes, options, into), on_failure);
}

}  // namespace

Grid sweep(const HookedTransformer& model, const FeatureNodes& nodes, const SweepOptions& options) {
  return swept_nodes(model, nodes, options, OnFailure::throws).grid;
}

SweepReport sweep_report(const HookedTransformer& model, const FeatureNodes& nodes,
                         const SweepOptions& options) {
  return swept_nodes(model, nodes, options, OnFailure::is_listed);
}

AttributionPatchingReport attribution_patching_report(const HookedTransformer& model,
                                                      const FeatureNodes& nodes,
                                                      const AttributionPatchingOptions& options) {
  const SweepInput into(model, options.sweep.into);
  return estimated(model, options, rows_alone(options.sweep), into,
                   plan_of_nodes(model, nodes, options.sweep, into));
}

Grid attribution_patching(const HookedTransformer& model, const FeatureNodes& nodes,
                          const AttributionPatchingOptions& options) {
  return attribution_patching_report(model, nodes, options).grid;
}

}  // namespace hooked
