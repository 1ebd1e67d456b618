#include "analysis/directions/interchange_runs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/select_scatter.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/places/input_rows.h"
#include "analysis/places/row_columns.h"
#include "analysis/runs/row_runs.h"
#include "analysis/work/as_memory_allows.h"
#include "core/to_device.h"
#include "hooked/analysis/row_intervals.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

/// The sources' vectors, [row, position, d].
at::Tensor source_vectors(const HookedTransformer& model, const InterchangePairs& pairs, const Address& place,
                          std::string_view where) {
  const auto& positions = pairs.source_positions.empty() ? pairs.positions : pairs.source_positions;
  std::vector<at::Tensor> vectors;
  std::int64_t next = 0;
  run_rows(model, pairs.source, {.capture = Selection(place.name()), .output = Output::none}, where, nullptr,
           [&](const Input& some, const RunResult& result) {
             std::vector<std::int64_t> rows(static_cast<std::size_t>(some.batch()));
             std::iota(rows.begin(), rows.end(), next);
             std::vector<Position> of_rows;
             for (const Position& position : positions) of_rows.push_back(position.of_rows(rows));
             vectors.push_back(
                 read_columns(result.cache, place, columns_of(result.cache, place, of_rows)).detach());
             next += some.batch();
           });
  return at::cat(vectors);
}

/// The base of the pairs, if there is a source for each.
SweepInput checked_base(const HookedTransformer& model, const InterchangePairs& pairs,
                        std::string_view where) {
  SweepInput base(model, pairs.base, where);
  const SweepInput source(model, pairs.source, where);
  if (base.rows() != source.rows()) {
    throw ShapeError(where,
                     fmt::format("the pairs have another number of bases than sources; expected {} rows "
                                 "twice, got {}",
                                 base.rows(), source.rows()));
  }
  const std::size_t into = pairs.positions.size(), from = pairs.source_positions.size();
  if (into == 0 || (from != 0 && from != into)) {
    throw ShapeError(where,
                     fmt::format("positions do not fit; expected one or more, and as many of the source "
                                 "or none, got {} and {}",
                                 into, from));
  }
  return base;
}

}  // namespace

at::Tensor columns_in(const SweepInput& input, const Address& place, const std::vector<Position>& positions) {
  return RowColumns::of(positions, input.rows(), input.columns(place.name().stack == Stack::encoder)).columns;
}

void require_vectors_at(const HookedTransformer& model, const Address& place, std::string_view where) {
  const PointIndex points(model.config());
  points.require(points.resolve(place.name()));
  const SiteRow& site = row(place.name().site);
  const bool starts = !site.integers && site.axes.size() >= 3 && site.axes[1] == Axis::pos;
  const bool whole = starts && site.axes.size() == 3 && place.indices().empty();
  const auto& entries = place.indices().entries();
  const bool head = starts && site.axes.size() == 4 && entries.size() == 1 &&
                    entries[0].first == site.axes[2] &&
                    std::holds_alternative<std::int64_t>(entries[0].second.value);
  if (whole || head) return;
  throw HookError(where, fmt::format("{} is not a vector at each position; expected an activation [row, pos, "
                                     "d], or one head of [row, pos, head, d]",
                                     place.to_string()));
}

void require_orthonormal(const at::Tensor& basis, std::int64_t d, std::string_view where) {
  const bool shaped = basis.defined() && basis.dim() == 2 && basis.size(0) == d && basis.size(1) >= 1 &&
                      basis.size(1) <= d && basis.is_floating_point();
  if (!shaped) {
    throw ShapeError(where, fmt::format("the basis does not fit the activation; expected [{}, k], got {}", d,
                                        basis.defined() ? shape_text(basis.sizes()) : "an undefined tensor"));
  }
  const at::Tensor b = basis.detach().to(at::kCPU, at::kDouble);
  const double off = (b.t().matmul(b) - at::eye(b.size(1), b.options())).abs().max().item<double>();
  if (off < 1e-6) return;
  throw ShapeError(where,
                   fmt::format("the columns of the basis are not orthonormal; expected products of 0 and "
                               "1, got one that is {:.2g} off; take the Q of its QR decomposition",
                               off));
}

InterchangeRuns::InterchangeRuns(const HookedTransformer& model, const InterchangePairs& pairs,
                                 const Address& place, std::string_view where)
    : model_(model),
      place_((require_vectors_at(model, place, where), place)),
      where_(where),
      base_(checked_base(model, pairs, where)),
      columns_(columns_in(base_, place, pairs.positions)),
      source_(source_vectors(model, pairs, place, where)),
      objective_(log_probability(pairs.expected, pairs.answer_at).on(model, base_.all())),
      correct_(top1(pairs.expected, pairs.answer_at).on(model, base_.all())) {}

at::Tensor InterchangeRuns::with_part(const at::Tensor& value, const at::Tensor& basis,
                                      const at::Tensor& columns, const at::Tensor& source) const {
  const bool of_head = value.dim() == 4;
  const std::int64_t head = of_head ? std::get<std::int64_t>(place_.indices().entries()[0].second.value) : 0;
  const at::Tensor vectors = of_head ? value.select(2, head) : value;  // [row, pos, d]
  const at::Tensor at = to_device(columns, value.device()).unsqueeze(-1).expand({-1, -1, vectors.size(-1)});
  const at::Tensor here = vectors.gather(1, at);
  const at::Tensor P = basis.to(value.options());
  const at::Tensor changed = here + (source - here).matmul(P).matmul(P.t());
  const at::Tensor all = vectors.scatter(1, at, changed);
  return of_head ? at::select_scatter(value, all, 2, head) : all;
}

at::Tensor InterchangeRuns::scores(const BoundMetric& metric, const at::Tensor& basis,
                                   const std::vector<std::int64_t>& rows, bool differentiable) const {
  const at::Tensor numbers = at::tensor(rows, at::kLong);
  Input some = base_.all();
  for (at::Tensor* tensor : tensors_of_rows(some)) {
    if (tensor->defined()) *tensor = tensor->index_select(0, to_device(numbers, tensor->device()));
  }
  const at::Tensor columns = columns_.index_select(0, numbers);
  const at::Tensor source = source_.index_select(0, to_device(numbers, source_.device()));
  const BoundMetric of_rows = metric.of_rows(rows);
  const Hook put(Selection(place_.name()),
                 [&](const at::Tensor& value) { return with_part(value, basis, columns, source); });
  return of_rows(model_.run(some, of_rows.needs({.hooks = put, .differentiable = differentiable})));
}

at::Tensor InterchangeRuns::all_scores(const BoundMetric& metric, const at::Tensor& basis,
                                       const std::vector<std::int64_t>& rows) const {
  constexpr std::int64_t kTokensPerRun = 1024;
  std::vector<at::Tensor> found;
  as_memory_allows(model_.device(), where_, static_cast<std::int64_t>(rows.size()),
                   std::max<std::int64_t>(1, kTokensPerRun / base_.all().length()),
                   [&](std::int64_t begin, std::int64_t end) {
                     found.push_back(scores(metric, basis, {rows.begin() + begin, rows.begin() + end}, false)
                                         .detach()
                                         .to(at::kCPU, at::kDouble));
                   });
  return at::cat(found);
}

InterchangeReport InterchangeRuns::report(const at::Tensor& basis,
                                          const std::vector<std::int64_t>& rows) const {
  GridAxis axis{.name = "row", .labels = {}};
  for (const std::int64_t row : rows) axis.labels.push_back(std::to_string(row));
  const at::Tensor right = all_scores(correct_, basis, rows);
  const std::string title = fmt::format("Interchange at {}", place_.to_string());
  const Grid hits(right.sum(), {}, {.title = title, .unit = "share"});
  const Grid trials(at::scalar_tensor(static_cast<double>(rows.size()), at::kDouble), {},
                    {.title = title, .unit = "share"});
  return {.correct = Grid(right, {axis}, {.title = title, .unit = "share"}),
          .accuracy = share_interval(hits, trials),
          .objective = Grid(all_scores(objective_, basis, rows), {axis},
                            {.title = title, .unit = objective_.metric().name()})};
}

}  // namespace hooked
