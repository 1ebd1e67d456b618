// The numbers of a sweep: by metric, for each pair or over all pairs, unchanged or rescaled.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cli/patch_output.h"
#include "hooked/engine/run_result.h"

namespace hooked::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One number for each pair, [pair], shaped to broadcast with values [pair, ...].
at::Tensor beside(at::Tensor of_pairs, const at::Tensor& values) {
  while (of_pairs.dim() < values.dim()) of_pairs = of_pairs.unsqueeze(-1);
  return of_pairs.expand_as(values);
}

at::Tensor quotient(const at::Tensor& numbers, const at::Tensor& by) {
  return at::where(by.eq(0), at::full_like(numbers, kNan), numbers / by);
}

}  // namespace

SweepNumbers::SweepNumbers(std::string name, SweepReport report, const UnpatchedScores& unpatched)
    : name_(std::move(name)),
      report_(std::move(report)),
      unpatched_(unpatched),
      values_(report_.grid.values()),
      cells_(report_.grid.axes()) {
  // The grid has these axes only if they have several places.
  const auto take_axis = [&](std::string_view axis, std::int64_t dimension) {
    if (!cells_.empty() && cells_.front().name == axis) {
      cells_.erase(cells_.begin());
    } else {
      values_ = values_.unsqueeze(dimension);
    }
  };
  take_axis("metric", 0);
  take_axis("row", 1);
}

bool SweepNumbers::has_scale(std::size_t metric) const {
  const auto m = static_cast<std::int64_t>(metric);
  return unpatched_.clean[m].mean().item<double>() != unpatched_.corrupted[m].mean().item<double>();
}

std::int64_t SweepNumbers::missing() const { return at::isnan(values_).sum().item<std::int64_t>(); }

bool SweepNumbers::all_finite() const {
  return std::none_of(report_.notes.begin(), report_.notes.end(),
                      [](const std::string& note) { return note.starts_with(kNotFinite); });
}

at::Tensor SweepNumbers::numbers(std::size_t metric, PatchScale scale, bool per_pair) const {
  const auto m = static_cast<std::int64_t>(metric);
  const std::int64_t pairs = per_pair ? values_.size(1) : this->pairs();
  const auto of_pairs = [&](const at::Tensor& all) { return all[m].narrow(0, 0, pairs); };
  const at::Tensor values = of_pairs(values_);  // [pair, ...]
  if (scale == PatchScale::scores)
    return per_pair ? values : all_finite() ? values.nanmean(0) : values.mean(0);
  const at::Tensor zero = beside(of_pairs(unpatched_.corrupted), values);
  const at::Tensor whole = beside(of_pairs(unpatched_.clean), values) - zero;
  const at::Tensor back = values - zero;
  if (per_pair) return quotient(back, whole);
  // Only the pairs that have a number there.
  const at::Tensor has_none = at::isnan(values);
  const at::Tensor shares =
      quotient(back.nan_to_num(0.0).masked_fill(has_none, 0).sum(0), whole.masked_fill(has_none, 0).sum(0));
  return all_finite() ? shares : shares.masked_fill(has_none.any(0), kNan);
}

std::vector<GridAxis> SweepNumbers::axes(bool per_pair) const {
  std::vector<GridAxis> axes = cells_;
  if (!per_pair) return axes;
  GridAxis pair{.name = "pair", .labels = {}};
  for (std::int64_t i = 0; i < values_.size(1); ++i) pair.labels.push_back(std::to_string(i));
  axes.insert(axes.begin(), std::move(pair));
  return axes;
}

std::string SweepNumbers::title(bool per_pair) const {
  const std::int64_t all = values_.size(1);
  const std::string what = fmt::format("Patching {} with {}", name_, report_.source);
  if (per_pair || pairs() == all) return what;
  return fmt::format("{}, mean over {} of {} pairs", what, pairs(), all);
}

Grid SweepNumbers::of_metric(std::size_t metric, PatchScale scale, bool per_pair) const {
  const std::string& name = unpatched_.names[metric];
  return Grid(
      numbers(metric, scale, per_pair), axes(per_pair),
      {.title = title(per_pair),
       .unit = scale == PatchScale::scores ? name : fmt::format("{}, corrupted run 0, clean run 1", name)});
}

Grid SweepNumbers::all(PatchScale scale, bool per_pair) const {
  if (unpatched_.names.size() == 1) return of_metric(0, scale, per_pair);
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < unpatched_.names.size(); ++i) values.push_back(numbers(i, scale, per_pair));
  auto axes = this->axes(per_pair);
  axes.insert(axes.begin(), {.name = "metric", .labels = unpatched_.names});
  return Grid(at::stack(values), std::move(axes),
              {.title = title(per_pair),
               .unit = scale == PatchScale::scores ? "score" : "corrupted run 0, clean run 1"});
}

}  // namespace hooked::cli
