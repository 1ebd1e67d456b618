#include "analysis/runs/standing_edits.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <variant>

#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/norm_points.h"
#include "hooks/stream.h"
#include "hooks/watch_plan.h"

namespace hooked {
namespace {

/// The index of `row` among the rows that an index names; nothing if it is none of them.
std::optional<std::int64_t> place_among(const AxisIndex& rows, SweptRow row) {
  const AxisContext context{Site::tokens, "batch", {}};
  if (std::holds_alternative<AxisIndex::Last>(rows.value))
    throw HookError("batch", "'last' is a place in a row's tokens; expected the number of a row");
  const auto places = resolve_places(rows, {context, Axis::batch, row.of});
  const auto found = std::find(places.begin(), places.end(), row.number);
  return found == places.end() ? std::nullopt : std::optional(found - places.begin());
}

/// One activation's part of an edit.
std::optional<Edit> edit_of_row(const Edit& edit, const ActivationName& name, SweptRow row) {
  Edit own = edit;
  own.target = {Selection(name), {}};
  std::int64_t rows = row.of, place = row.number, dropped = 0;
  bool keeps_rows = true;
  for (const auto& [axis, index] : edit.target.indices.entries()) {
    const bool drops = std::holds_alternative<std::int64_t>(index.value) ||
                       std::holds_alternative<AxisIndex::Last>(index.value);
    dropped += drops ? 1 : 0;
    if (axis != Axis::batch) {
      own.target.indices.add(axis, index);
      continue;
    }
    const auto among = place_among(index, row);
    if (!among) return std::nullopt;
    keeps_rows = !drops;
    place = *among;
    rows = static_cast<std::int64_t>(
        resolve_places(index, {{Site::tokens, "batch", {}}, Axis::batch, row.of}).size());
  }
  // A value with one entry per row becomes this row's, broadcast to all runs of it.
  if (auto* value = std::get_if<at::Tensor>(&own.value); value != nullptr) {
    const auto rank = static_cast<std::int64_t>(hooked::row(name.site).axes.size()) - dropped;
    if (keeps_rows && value->dim() == rank && value->size(0) == rows && rows > 1)
      *value = value->narrow(0, place, 1);
    if (own.kind == EditKind::replace) own.kind = EditKind::set;
  }
  return own;
}

/// The points at which a change alters how writers reach readers, where edges are computed as in the model:
/// those that show the stream, those of norms and scales on it and before what reads it, and all between a
/// reading sublayer and its queries, keys and values, or between heads and what they add.
std::set<ActivationName> points_on_the_way(const PointIndex& points, const ModelConfig& config) {
  constexpr std::array kBeforeHeads{Site::q_input,
                                    Site::k_input,
                                    Site::v_input,
                                    Site::q_latent,
                                    Site::kv_latent,
                                    Site::k_shared,
                                    Site::q_latent_norm_scale,
                                    Site::q_latent_norm_normalized,
                                    Site::kv_latent_norm_scale,
                                    Site::kv_latent_norm_normalized,
                                    Site::result,
                                    Site::cross_result};
  std::set<ActivationName> found;
  for (const ActivationName& name : points.names()) {
    if (std::ranges::find(kBeforeHeads, name.site) != kBeforeHeads.end()) found.insert(name);
  }
  const auto add_norm = [&](const ActivationName& normalized) {
    found.insert({normalized, scale_of(normalized)});
  };
  for (const Stack stack : stacks_of(config)) {
    for (const StreamStep& step : stream_of(config, stack)) {
      // Edges begin with what an MLP or an embedding adds.
      if (step.kind != StreamStep::Kind::write || step.of_heads()) found.insert(step.point);
      if (step.kind == StreamStep::Kind::norm) add_norm(step.point);
      // Norms of a mixture's router and experts do not matter here.
      if (!step.through.empty()) add_norm(step.through.front());
    }
  }
  return found;
}

}  // namespace

Edits edits_of_row(const Edits& edits, const PointIndex& points, SweptRow row) {
  Edits own;
  for (const Edit& edit : edits) {
    for (const std::size_t point : edited_points(edit.target, points, Reach::everything(points))) {
      if (auto of_row = edit_of_row(edit, points.name(point), row)) own.push_back(std::move(*of_row));
    }
  }
  return own;
}

// A hook need not change what it sees, but this cannot be known.
void require_free_way(const HookedTransformer& model, const Hooks& hooks, const Edits& edits) {
  const PointIndex& points = model.points();
  const std::set<ActivationName> on_the_way = points_on_the_way(points, model.config());
  const auto require_none = [&](const Selection& where) {
    for (const std::size_t point : where.resolve(points, Reach::everything(points))) {
      const ActivationName& name = points.name(point);
      if (!on_the_way.contains(name)) continue;
      throw HookError(name.to_string(),
                      "edges are carried from writers to readers as the model does it; expected hooks and "
                      "edits inside of "
                      "attention and MLPs, or of what is written (z, mlp_out, embeddings)");
    }
  };
  for (const Hook& hook : model.hooks()) require_none(hook.where);
  for (const Hook& hook : hooks) require_none(hook.where);
  for (const Edit& edit : edits) require_none(edit.target.where);
}

bool may_change(const ActivationName& name, const Hooks& hooks, const Edits& edits,
                const PointIndex& points) {
  const std::size_t point = points.require(name);
  const auto selects = [&](const Selection& where) {
    const auto selected = where.resolve(points, Reach::everything(points));
    return std::find(selected.begin(), selected.end(), point) != selected.end();
  };
  return std::any_of(hooks.begin(), hooks.end(), [&](const Hook& hook) { return selects(hook.where); }) ||
         std::any_of(edits.begin(), edits.end(),
                     [&](const Edit& edit) { return selects(edit.target.where); });
}

}  // namespace hooked
