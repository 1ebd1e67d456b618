// Edges and circuits: sums of edges by differences of runs, judgements by runs patched by hand.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/edge_attribution.h"
#include "points.h"
#include "slopes.h"
#include "sweep_parts.h"

namespace hooked::combinations {
namespace {

using reference::PlainRun;

/// The block that a part writes with.
Where where_of(const Address& place) {
  const ActivationName name = place.name();
  Where where{.path = path_of(name), .in_block = row(name.site).scope == SiteScope::block};
  where.layer = where.in_block ? name.layer : 0;
  if (const AxisIndex* head = place.indices().find(Axis::head)) {
    where.head = {.form = Places::Form::one, .numbers = {std::get<std::int64_t>(head->value)}};
  }
  return where;
}

/// The sweep of these consumers: without a site.
SweepOptions circuit_options(const Subject& subject) {
  SweepOptions options = sweep_options(subject);
  options.site.reset();
  options.over.clear();
  return options;
}

std::vector<Address> written_by_edges(const Grid& grid) {
  std::vector<Address> places;
  for (const auto& place : grid.axis("writer").places) places.push_back(*place);
  return places;
}

/// The score of a row in which these parts have what the source has.
double score_without(const Subject& subject, const OracleSource& source, const Row& row,
                     const std::vector<Address>& parts) {
  std::vector<reference::Change> changes = subject.changes_of(row);
  for (const Address& part : parts) changes.push_back(patch_of(source, {.where = where_of(part)}, row, {}));
  return score_of(subject, row, subject.oracle().run(row, changes));
}

}  // namespace

void compare_edges(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  const Grid grid = edge_attribution(
      handle.model, {.sweep = circuit_options(subject), .integration = integration_of(c.sweep.estimate)});
  const OracleSource source(subject);
  const std::vector<Address> writers = written_by_edges(grid);
  const bool several = c.rows() > 1;
  for (const Row& row : subject.rows()) {
    const at::Tensor edges = several ? grid.values()[row.index] : grid.values();
    const at::Tensor sums = edges.nan_to_num(0.0).sum(1);
    for (std::size_t writer = 0; writer < writers.size(); ++writer) {
      const auto expected = estimate_of(subject, source, row, {.where = where_of(writers[writer])});
      if (!expected) continue;
      comparison.expect_number(fmt::format("edges of {} in row {}", writers[writer].to_string(), row.index),
                               sums[static_cast<std::int64_t>(writer)].item<double>(), *expected,
                               kSlopeTolerance);
    }
  }
}

void compare_circuits(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  const std::vector<ModelPart> parts = model_parts(subject.model());
  // Every second part, beginning where the seed says.
  std::vector<std::string> names;
  std::vector<Address> inside, outside, all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool in = (i + c.seed) % 2 == 0;
    if (in) names.push_back(parts[i].name);
    (in ? inside : outside).push_back(parts[i].place);
    all.push_back(parts[i].place);
  }
  const CircuitJudgement judged =
      judge_circuit(handle.model, Circuit::of_nodes(handle.model, names),
                    {.sweep = circuit_options(subject), .sets = 4, .seed = c.seed});
  const OracleSource source(subject);
  const auto mean_without = [&](const std::vector<Address>& without) {
    double sum = 0.0;
    for (const Row& row : subject.rows()) sum += score_without(subject, source, row, without);
    return sum / static_cast<double>(c.rows());
  };
  const double whole = mean_without({}), none = mean_without(all), circuit = mean_without(outside),
               rest = mean_without(inside);
  comparison.expect_number("whole", judged.whole, whole);
  comparison.expect_number("none", judged.none, none);
  comparison.expect_number("circuit", judged.circuit, circuit);
  comparison.expect_number("without", judged.without, rest);
  const double range = whole - none;
  if (std::abs(range) > 1e-6 * std::max(1.0, std::abs(whole))) {
    comparison.expect_number("faithfulness", judged.faithfulness, (circuit - none) / range, 1e-6);
    comparison.expect_number("completeness", judged.completeness, (whole - rest) / range, 1e-6);
  } else if (std::abs(range) < 1e-12 * std::abs(whole)) {
    // A share of nothing is no number.
    for (const double number :
         {judged.faithfulness, judged.completeness, judged.incompleteness, judged.more_faithful}) {
      comparison.expect_number("a share of nothing", number, NAN);
    }
  }
}

}  // namespace hooked::combinations
