#include "hooked/analysis/residual.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/stream/stream_path.h"
#include "analysis/stream/vector_stack.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

/// An activation of the model by its full name. Throws HookError if the model lacks it, and for indices.
ActivationName whole_activation(const HookedTransformer& model, const Address& address, const char* option) {
  if (!address.indices().empty()) {
    throw HookError(address.to_string(),
                    fmt::format("`{}` is a whole activation; expected its name without indices; `positions` "
                                "says where it is read",
                                option));
  }
  const PointIndex& points = model.points();
  return points.name(points.require(points.resolve(address.name())));
}

/// [part or point, row, pos, ...] as the values of a grid: [row, part, pos, ...] with NaN for padding.
at::Tensor by_row(const at::Tensor& values, const RowColumns& columns) {
  auto rows = values.movedim(1, 0);
  if (!columns.real.defined()) return rows;
  // without_padding() expects the positions on the last axis.
  return rows.dim() == 3 ? without_padding(rows, columns)
                         : without_padding(rows.transpose(2, 3), columns).transpose(2, 3);
}

/// `along` as [direction, d_model].
at::Tensor checked_directions(const at::Tensor& along, std::int64_t d_model) {
  const bool fits = (along.dim() == 1 || along.dim() == 2) && along.size(-1) == d_model;
  if (!fits || !along.is_floating_point()) {
    throw ShapeError("residual_parts", fmt::format("`along` does not fit the stream; expected directions "
                                                   "[{}] or [direction, {}], got {}",
                                                   d_model, d_model, shape_text(along.sizes())));
  }
  return along.to(at::kCPU, at::kDouble).view({-1, d_model});
}

StreamNorm norm_named(const HookedTransformer& model, const Address& norm) {
  const auto name = whole_activation(model, norm, "norm");
  if (is_scale_of_stream(name.site)) return stream_norm_at(model, name);
  throw HookError(name.to_string(),
                  "this is not the scale of a norm of the stream; expected one, such as ln1_scale(0) or "
                  "ln_final_scale");
}

/// `x` [.., row, pos, d_model] as a norm's output, before its weight.
at::Tensor normed(const at::Tensor& x, const ReadingNorm& through, const RunReading& run) {
  const auto norm = norm_named(run.model, through.norm);
  if (through.scale == NormScale::of_run) return run.division(norm).of(x);
  const auto from = centred(x, norm.centres());
  return from / (from.square().mean(-1, true) + run.model.config().eps).sqrt();
}

/// The points of the stream up to `until`.
std::vector<ActivationName> points_until(const ModelConfig& config, const ActivationName& until, bool mid) {
  std::vector<ActivationName> points;
  for (const StreamStep& step : stream_of(config, until.stack)) {
    const bool shows = step.kind == StreamStep::Kind::show || step.kind == StreamStep::Kind::scale;
    if (!shows || !step.in_block()) continue;
    const bool first = step.point.site == Site::resid_pre;
    if (step.point == until || first || (mid && step.shows_within_block())) points.push_back(step.point);
    if (step.point == until) return points;
  }
  throw HookError(until.to_string(),
                  "this is not a point of the stream; expected resid_pre, resid_mid, resid_post or the like");
}

}  // namespace

Grid residual_parts(const HookedTransformer& model, const ActivationCache& cache,
                    const ResidualOptions& options) {
  const auto of = options.of ? whole_activation(model, *options.of, "of") : end_of_stream(model.config());
  const auto run = reading_of(model, cache, {of, options.positions});
  const auto path = path_to(of, {options.grain, options.value_biases}, run);
  const auto whole = run(of);
  const auto title = fmt::format("Parts of {}", of.to_string());
  std::vector<GridAxis> axes{numbered_axis("row", run.columns.rows()), {}, run.columns.axis};
  if (!options.along.defined()) {
    auto parts = vectors_along(path, whole);
    axes[1] = std::move(parts.axis);
    axes.push_back(numbered_axis("d_model", model.config().d_model));
    return Grid(by_row(parts.values, run.columns), std::move(axes), {.title = title, .unit = "activation"});
  }
  const auto directions = checked_directions(options.along, model.config().d_model);
  auto parts =
      directions_along(path, whole, directions.expand({run.columns.rows(), run.columns.positions(), -1, -1}));
  axes[1] = std::move(parts.axis);
  if (options.along.dim() == 1) {
    parts.values = parts.values.squeeze(-1);
  } else {
    axes.push_back(numbered_axis("direction", directions.size(0)));
  }
  return Grid(by_row(parts.values, run.columns), std::move(axes),
              {.title = title, .unit = "along the direction"});
}

Grid accumulated_residual(const HookedTransformer& model, const ActivationCache& cache,
                          const AccumulatedOptions& options) {
  const auto& config = model.config();
  const auto until = options.until ? whole_activation(model, *options.until, "until") : end_of_stream(config);
  const auto run = reading_of(model, cache, {until, options.positions});
  GridAxis points{.name = "point", .labels = {}};
  std::vector<at::Tensor> values;
  for (const auto& point : points_until(config, until, options.mid)) {
    points.labels.push_back(fmt::format("{} {}", row(point.site).word, point.layer));
    points.places.emplace_back(point);
    values.push_back(run(point));
  }
  auto stack = at::stack(values);  // [point, row, pos, d_model]
  if (options.norm) stack = normed(stack, *options.norm, run);
  return Grid(by_row(stack, run.columns),
              {numbered_axis("row", run.columns.rows()), std::move(points), run.columns.axis,
               numbered_axis("d_model", config.d_model)},
              {.title = "Accumulated residual stream", .unit = "activation"});
}

Grid normed_stack(const HookedTransformer& model, const ActivationCache& cache, const Grid& stack,
                  const NormStackOptions& options) {
  const auto norm = norm_named(model, options.norm.norm);
  const auto run = reading_of(model, cache, {norm.scale, options.positions});
  const VectorStack vectors(stack, run.columns, model.config().d_model, "normed_stack");
  return vectors.with_vectors(normed(vectors.vectors(), options.norm, run),
                              {.title = stack.title(), .unit = stack.unit()});
}

}  // namespace hooked
