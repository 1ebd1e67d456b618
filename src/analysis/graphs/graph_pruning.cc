// Influence along the edges of a graph, and what is left of it when little influence is dropped.
#include "hooked/analysis/graph_pruning.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "analysis/graphs/graph_coders.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr double kLeastRow = 1e-10;

/// Sizes of edges, each row divided by its sum.
at::Tensor shares_of(const at::Tensor& edges) {
  const at::Tensor sizes = edges.abs();
  return sizes / sizes.sum(1, true).clamp_min(kLeastRow);
}

/// The weights of logits, as of targets.
at::Tensor weights_of(const AttributionGraph& graph) {
  at::Tensor weights = at::zeros({graph.features + graph.logits}, graph.edges.options());
  for (std::int64_t row = graph.features; row < weights.size(0); ++row)
    weights[row] = graph.nodes[static_cast<std::size_t>(graph.target(row))].value;
  return weights;
}

/// The influence of each source, of a graph without cycles.
at::Tensor influence_of(const AttributionGraph& graph, const at::Tensor& shares, const at::Tensor& weights) {
  at::Tensor all = at::zeros({shares.size(1)}, shares.options()), reached = weights;
  // No path passes more features than there are.
  for (std::int64_t step = 0; step <= graph.features; ++step) {
    const at::Tensor next = at::matmul(reached, shares);
    if (!next.any().item<bool>()) break;
    all += next;
    reached = at::zeros_like(weights);
    reached.slice(0, 0, graph.features) += next.slice(0, 0, graph.features);
  }
  return all;
}

/// The smallest of the largest scores that together have that share of the sum of all; of 1: 0.
double least_of(const at::Tensor& scores, double share) {
  const at::Tensor some = scores.masked_select(scores.gt(0));
  if (some.numel() == 0 || share >= 1) return 0;
  const auto [sorted, order] = some.sort(0, /*descending=*/true);
  const at::Tensor reaches = (sorted.cumsum(0) / sorted.sum()).ge(share);
  const at::Tensor places = at::nonzero(reaches);
  return places.size(0) == 0 ? 0 : sorted[places[0][0].item<std::int64_t>()].item<double>();
}

void require_share(const char* field, double share) {
  if (share >= 0 && share <= 1) return;
  throw HookError("pruned graph", fmt::format("{} is {}; expected 0 to 1", field, share));
}

/// What stays of a graph.
struct Kept {
  at::Tensor sources;  // [source] bool
  at::Tensor edges;    // [target, source] bool

  at::Tensor targets(const AttributionGraph& graph) const {
    return at::cat({sources.slice(0, 0, graph.features), at::ones({graph.logits}, sources.options())});
  }

  /// Drops features and errors without an edge out of them, features without an edge into them, and their
  /// edges, until all have both.
  void drop_loose_ends(const AttributionGraph& graph) {
    const std::int64_t coded = graph.features + graph.errors;
    while (true) {
      at::Tensor now = sources.clone();
      now.slice(0, 0, coded).logical_and_(edges.slice(1, 0, coded).any(0));
      now.slice(0, 0, graph.features).logical_and_(edges.slice(0, 0, graph.features).any(1));
      if (now.equal(sources)) return;
      sources = now;
      edges.logical_and_(sources.unsqueeze(0)).logical_and_(targets(graph).unsqueeze(1));
    }
  }
};

/// The strongest paths that end at a node.
class PathsToNodes {
 public:
  PathsToNodes(const AttributionGraph& graph, std::int64_t count)
      : graph_(graph), count_(static_cast<std::size_t>(std::max<std::int64_t>(count, 0))) {
    const std::int64_t sources = graph.features + graph.errors + graph.tokens;
    to_.resize(static_cast<std::size_t>(sources));
    for (std::int64_t source = graph.features; source < sources; ++source)
      to_[static_cast<std::size_t>(source)] = {{{source}, 1}};
    const at::Tensor shares = shares_of(graph.edges.to(at::kCPU, at::kDouble)).contiguous();
    // Features come in the order of their layers, so that those that lead to one are done before it.
    for (std::int64_t row = 0; row < shares.size(0); ++row) {
      std::vector<GraphPath> paths = paths_of_row(shares.const_data_ptr<double>() + row * sources, row);
      if (row < graph.features) {
        to_[static_cast<std::size_t>(row)] = std::move(paths);
      } else {
        const double weight = graph.nodes[static_cast<std::size_t>(graph.target(row))].value;
        for (GraphPath& path : paths) path.influence *= weight;
        std::ranges::move(paths, std::back_inserter(ended_));
      }
    }
    keep_strongest(ended_);
  }

  std::vector<GraphPath> of_logits() && { return std::move(ended_); }

 private:
  void keep_strongest(std::vector<GraphPath>& paths) const {
    std::ranges::stable_sort(paths, std::greater<>(), &GraphPath::influence);
    if (paths.size() > count_) paths.resize(count_);
  }

  std::vector<GraphPath> paths_of_row(const double* shares, std::int64_t row) const {
    struct Step {
      double influence;
      std::size_t source, path;
    };
    std::vector<Step> steps;
    for (std::size_t source = 0; source < to_.size(); ++source) {
      if (shares[source] == 0) continue;
      for (std::size_t path = 0; path < to_[source].size(); ++path)
        steps.push_back({shares[source] * to_[source][path].influence, source, path});
    }
    std::ranges::stable_sort(steps, std::greater<>(), &Step::influence);
    if (steps.size() > count_) steps.resize(count_);
    std::vector<GraphPath> paths;
    for (const Step& step : steps) {
      paths.push_back({to_[step.source][step.path].nodes, step.influence});
      paths.back().nodes.push_back(graph_.target(row));
    }
    return paths;
  }

  const AttributionGraph& graph_;
  std::size_t count_;
  std::vector<std::vector<GraphPath>> to_;  // [source]
  std::vector<GraphPath> ended_;            // at logits
};

}  // namespace

AttributionGraph pruned(const AttributionGraph& graph, const GraphPruning& how) {
  require_share("node_share", how.node_share);
  require_share("edge_share", how.edge_share);
  const at::Tensor weights = weights_of(graph);
  const at::Tensor influence = influence_of(graph, shares_of(graph.edges), weights);
  Kept kept{.sources = influence.ge(least_of(influence, how.node_share)), .edges = {}};
  kept.sources.slice(0, graph.features + graph.errors).fill_(true);

  at::Tensor scores = shares_of(graph.edges * kept.sources.unsqueeze(0) * kept.targets(graph).unsqueeze(1));
  at::Tensor of_targets = weights.clone();
  of_targets.slice(0, 0, graph.features) += influence_of(graph, scores, weights).slice(0, 0, graph.features);
  scores = scores * of_targets.unsqueeze(1);
  kept.edges = scores.ge(least_of(scores, how.edge_share));
  kept.drop_loose_ends(graph);

  const auto [sorted, order] = influence.sort(/*stable=*/true, 0, /*descending=*/true);
  at::Tensor shares = at::empty_like(influence);
  shares.index_put_({order}, sorted.cumsum(0) / sorted.sum());
  const at::Tensor columns = at::nonzero(kept.sources).flatten();
  const at::Tensor rows = at::nonzero(kept.targets(graph)).flatten();
  AttributionGraph made = graph;
  made.nodes.clear();
  made.features = made.errors = 0;
  for (std::int64_t i = 0; i < columns.numel(); ++i) {
    const std::int64_t column = columns[i].item<std::int64_t>();
    made.nodes.push_back(graph.nodes[static_cast<std::size_t>(column)]);
    made.nodes.back().influence = shares[column].item<double>();
    made.features += made.nodes.back().kind == GraphNodeKind::feature;
    made.errors += made.nodes.back().kind == GraphNodeKind::error;
  }
  made.nodes.insert(made.nodes.end(), graph.nodes.end() - graph.logits, graph.nodes.end());
  made.edges = (graph.edges * kept.edges).index_select(0, rows).index_select(1, columns);
  for (at::Tensor* each : {&made.constants, &made.preactivations}) {
    if (each->defined()) *each = each->index_select(0, rows);
  }
  return made;
}

GraphScores graph_scores(const AttributionGraph& graph) {
  const at::Tensor shares = shares_of(graph.edges), weights = weights_of(graph);
  const at::Tensor influence = influence_of(graph, shares, weights);
  const auto sum_of = [&](std::int64_t first, std::int64_t count) {
    return influence.narrow(0, first, count).sum().item<double>();
  };
  const double errors = sum_of(graph.features, graph.errors);
  const double tokens = sum_of(graph.features + graph.errors, graph.tokens);
  // What no edge leads to counts as complete: errors and tokens, which are targets of nothing.
  at::Tensor of_targets = weights.clone();
  of_targets.slice(0, 0, graph.features) += influence.slice(0, 0, graph.features);
  const at::Tensor complete = 1 - shares.narrow(1, graph.features, graph.errors).sum(1);
  const double all = of_targets.sum().item<double>() + errors + tokens;
  return {.replacement = tokens / (tokens + errors),
          .completeness = ((complete * of_targets).sum().item<double>() + errors + tokens) / all};
}

std::vector<GraphPath> strongest_paths(const AttributionGraph& graph, std::int64_t count) {
  return PathsToNodes(graph, count).of_logits();
}

}  // namespace hooked
