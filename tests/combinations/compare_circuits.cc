// Edges and circuits: sums of edges by differences of runs, judgements by runs patched by hand.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/edge_attribution.h"
#include "tests/combinations/points.h"
#include "tests/combinations/slopes.h"
#include "tests/combinations/sweep_parts.h"

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

namespace {

/// What is left of the model where none of a circuit's parts, or some, are as they are.
struct CircuitParts {
  Circuit circuit;
  std::vector<Address> inside, outside, all;
};

/// Every second node, beginning where the seed says.
CircuitParts some_nodes(const Subject& subject) {
  const std::vector<ModelPart> parts = model_parts(subject.model());
  std::vector<std::string> names;
  std::vector<Address> inside, outside, all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool in = (i + subject.combination().seed) % 2 == 0;
    if (in) names.push_back(parts[i].name);
    (in ? inside : outside).push_back(parts[i].place);
    all.push_back(parts[i].place);
  }
  return {Circuit::of_nodes(subject.model(), names), inside, outside, all};
}

/// The edge from the first head to the logits. The writers are all nodes, and what begins the stream.
CircuitParts one_edge(const Subject& subject) {
  CircuitParts parts = some_nodes(subject);
  parts.circuit = Circuit::of_edges(subject.model(), {{model_parts(subject.model()).front().name, "logits"}});
  parts.all.push_back(act::resid_pre(0));
  return parts;
}

}  // namespace

void compare_circuits(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  const CircuitParts parts = c.sweep.edges ? one_edge(subject) : some_nodes(subject);
  CircuitJudgementOptions options{.sweep = circuit_options(subject), .sets = 4, .seed = c.seed};
  std::int64_t steps = 0;
  if (c.sweep.resumed_after) {
    options.sweep.progress = [&](const SweepProgress&) { return ++steps < *c.sweep.resumed_after; };
  }
  const CircuitJudgement judged = judge_circuit(handle.model, parts.circuit, options);
  const OracleSource source(subject);
  const auto mean_without = [&](const std::vector<Address>& without) {
    double sum = 0.0;
    for (const Row& row : subject.rows()) sum += score_without(subject, source, row, without);
    return sum / static_cast<double>(c.rows());
  };
  // A judgement that was ended has NaN for what is missing.
  const auto expect = [&](const char* what, double got, double expected) {
    if (!judged.complete && std::isnan(got)) return;
    comparison.expect_number(what, got, expected, kSlopeTolerance);
  };
  const double whole = mean_without({}), none = mean_without(parts.all);
  expect("whole", judged.whole, whole);
  expect("none", judged.none, none);
  const double range = whole - none;
  if (!c.sweep.edges) {
    const double circuit = mean_without(parts.outside), rest = mean_without(parts.inside);
    expect("circuit", judged.circuit, circuit);
    expect("without", judged.without, rest);
    if (std::abs(range) > 1e-3 * std::max(1.0, std::abs(whole))) {
      expect("faithfulness", judged.faithfulness, (circuit - none) / range);
      expect("completeness", judged.completeness, (whole - rest) / range);
    }
  }
  if (std::abs(range) > 1e-12 * std::abs(whole)) return;
  // A share of nothing is not a number.
  for (const double number :
       {judged.faithfulness, judged.completeness, judged.incompleteness, judged.more_faithful}) {
    comparison.expect_number("a share of nothing", number, NAN);
  }
}

}  // namespace hooked::combinations
