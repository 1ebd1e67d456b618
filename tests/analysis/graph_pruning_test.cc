// Pruning and scores against a plain transcription of the published rules, on random graphs without cycles.
#include "hooked/analysis/graph_pruning.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tests/support/test.h"

namespace hooked::graph_pruning_test {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// A graph of `features` features in an order in which edges lead from earlier to later ones.
AttributionGraph random_graph(std::uint64_t seed, bool zero_rows) {
  AttributionGraph graph;
  graph.features = 14;
  graph.errors = 6;
  graph.tokens = 3;
  graph.logits = 2;
  graph.layers = 2;
  const auto add = [&](GraphNodeKind kind, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      graph.nodes.push_back(
          {.kind = kind, .layer = 0, .pos = i, .id = i, .value = 0.5 / static_cast<double>(i + 1)});
  };
  add(GraphNodeKind::feature, 14);
  add(GraphNodeKind::error, 6);
  add(GraphNodeKind::token, 3);
  add(GraphNodeKind::logit, 2);
  graph.edges = at::randn({16, 23}, at::detail::createCPUGenerator(seed), at::kDouble);
  // Powers make some edges much larger than others.
  graph.edges = graph.edges.pow(3);
  for (std::int64_t row = 0; row < 14; ++row) graph.edges[row].slice(0, row, 14).zero_();
  if (zero_rows) {
    graph.edges[3].zero_();
    graph.edges[7].zero_();
    graph.edges.select(1, 5).zero_();
    graph.edges.slice(1, 14, 17).zero_();
  }
  return graph;
}

/// The whole square, nodes as in the graph.
struct Plain {
  explicit Plain(const AttributionGraph& graph)
      : n(graph.nodes.size()), weights(n), whole(n, std::vector<double>(n)) {
    features = static_cast<std::size_t>(graph.features);
    coded = features + static_cast<std::size_t>(graph.errors);
    sources = coded + static_cast<std::size_t>(graph.tokens);
    for (std::size_t t = 0; t < n; ++t) {
      if (t >= sources) weights[t] = graph.nodes[t].value;
      for (std::size_t s = 0; s < sources && (t < features || t >= sources); ++s)
        whole[t][s] = graph.edge(static_cast<std::int64_t>(s), static_cast<std::int64_t>(t));
    }
  }

  Matrix normalized(const Matrix& a) const {
    Matrix made = a;
    for (auto& row : made) {
      double sum = 0;
      for (double& x : row) sum += x = std::abs(x);
      for (double& x : row) x /= std::max(sum, 1e-10);
    }
    return made;
  }

  std::vector<double> influence(const Matrix& a) const {
    std::vector<double> all(n), now = weights;
    for (std::size_t step = 0; step < n; ++step) {
      std::vector<double> next(n);
      for (std::size_t t = 0; t < n; ++t) {
        for (std::size_t s = 0; s < n; ++s) next[s] += now[t] * a[t][s];
      }
      for (std::size_t s = 0; s < n; ++s) all[s] += next[s];
      now = next;
    }
    return all;
  }

  static double least(std::vector<double> scores, double share) {
    std::ranges::sort(scores, std::greater<>());
    double sum = 0, so_far = 0;
    for (const double score : scores) sum += score;
    if (share >= 1) return scores.back();
    for (const double score : scores) {
      so_far += score;
      if (so_far / sum >= share) return score;
    }
    return scores.back();
  }

  void prune(double node_share, double edge_share) {
    const std::vector<double> all = influence(normalized(whole));
    const double least_node = least(all, node_share);
    nodes.assign(n, true);
    for (std::size_t i = 0; i < coded; ++i) nodes[i] = all[i] >= least_node;
    Matrix some = whole;
    for (std::size_t t = 0; t < n; ++t) {
      for (std::size_t s = 0; s < n; ++s) some[t][s] *= nodes[t] && nodes[s] ? 1.0 : 0.0;
    }
    Matrix scores = normalized(some);
    const std::vector<double> again = influence(scores);
    std::vector<double> flat;
    for (std::size_t t = 0; t < n; ++t) {
      for (double& score : scores[t]) flat.push_back(score *= again[t] + weights[t]);
    }
    const double least_edge = least(flat, edge_share);
    edges.assign(n, std::vector<bool>(n));
    for (std::size_t t = 0; t < n; ++t) {
      for (std::size_t s = 0; s < n; ++s) edges[t][s] = scores[t][s] >= least_edge;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < coded; ++i) {
        bool out = false, in = i >= features;
        for (std::size_t t = 0; t < n; ++t) out = out || edges[t][i];
        for (std::size_t s = 0; s < n && i < features; ++s) in = in || edges[i][s];
        if (!nodes[i] || (out && in)) continue;
        nodes[i] = false;
        changed = true;
        for (std::size_t j = 0; j < n; ++j) edges[i][j] = edges[j][i] = false;
      }
    }
  }

  std::size_t n, features, coded, sources;
  std::vector<double> weights;
  Matrix whole;
  std::vector<bool> nodes;
  std::vector<std::vector<bool>> edges;
};

TEST(GraphPruning, IsThatOfAPlainTranscription) {
  for (const bool zero_rows : {false, true}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const AttributionGraph graph = random_graph(seed, zero_rows);
      Plain plain(graph);
      for (const double node_share : {0.0, 0.3, 0.8, 1.0}) {
        for (const double edge_share : {0.0, 0.5, 0.98, 1.0}) {
          plain.prune(node_share, edge_share);
          const AttributionGraph made = pruned(graph, {.node_share = node_share, .edge_share = edge_share});
          std::vector<std::size_t> kept;
          for (std::size_t i = 0; i < plain.n; ++i) {
            if (plain.nodes[i]) kept.push_back(i);
          }
          SCOPED_TRACE(fmt::format("{} {} {} {}", zero_rows, seed, node_share, edge_share));
          ASSERT_EQ(made.nodes.size(), kept.size());
          ASSERT_EQ(made.features + made.errors + made.tokens + made.logits, std::ssize(kept));
          for (std::size_t t = 0; t < kept.size(); ++t) {
            EXPECT_EQ(made.nodes[t].kind, graph.nodes[kept[t]].kind);
            EXPECT_EQ(made.nodes[t].id, graph.nodes[kept[t]].id);
            if (kept[t] >= plain.features && kept[t] < plain.sources) continue;
            for (std::size_t s = 0; s < kept.size() && kept[s] < plain.sources; ++s) {
              const double weight = plain.edges[kept[t]][kept[s]] ? plain.whole[kept[t]][kept[s]] : 0.0;
              EXPECT_DOUBLE_EQ(made.edge(static_cast<std::int64_t>(s), static_cast<std::int64_t>(t)), weight);
            }
          }
        }
      }
    }
  }
}

TEST(GraphPruning, InfluenceIsTheShareOfNodesWithAsMuch) {
  const AttributionGraph graph = random_graph(3, false);
  const Plain plain(graph);
  const std::vector<double> all = plain.influence(plain.normalized(plain.whole));
  const AttributionGraph made = pruned(graph, {.node_share = 1, .edge_share = 1});
  double sum = 0;
  for (const double each : all) sum += each;
  for (std::size_t i = 0; i < plain.sources; ++i) {
    double above = 0;
    for (const double each : all) above += each >= all[i] ? each : 0.0;
    EXPECT_NEAR(made.nodes[i].influence.value(), above / sum, 1e-12);
  }
  EXPECT_FALSE(made.nodes.back().influence);
  EXPECT_TRUE(at::equal(made.edges, graph.edges)) << "shares of 1 keep everything";
}

TEST(GraphPruning, ScoresAreThoseOfThePlainRules) {
  for (const bool zero_rows : {false, true}) {
    const AttributionGraph graph = random_graph(5, zero_rows);
    const Plain plain(graph);
    const Matrix shares = plain.normalized(plain.whole);
    const std::vector<double> all = plain.influence(shares);
    double errors = 0, tokens = 0, complete = 0, of_all = 0;
    for (std::size_t i = 0; i < plain.n; ++i) {
      if (i >= plain.features && i < plain.coded) errors += all[i];
      if (i >= plain.coded && i < plain.sources) tokens += all[i];
      double from_errors = 0;
      for (std::size_t s = plain.features; s < plain.coded; ++s) from_errors += shares[i][s];
      complete += (1 - from_errors) * (all[i] + plain.weights[i]);
      of_all += all[i] + plain.weights[i];
    }
    const GraphScores scores = graph_scores(graph);
    EXPECT_NEAR(scores.replacement, tokens / (tokens + errors), 1e-12);
    EXPECT_NEAR(scores.completeness, complete / of_all, 1e-12);
  }
}

TEST(GraphPruning, StrongestPathsAreThoseOfAllPaths) {
  const AttributionGraph graph = random_graph(4, false);
  const Plain plain(graph);
  const Matrix shares = plain.normalized(plain.whole);
  std::vector<GraphPath> all;
  const std::function<void(std::vector<std::int64_t>, double)> follow = [&](std::vector<std::int64_t> nodes,
                                                                            double influence) {
    const auto first = static_cast<std::size_t>(nodes.front());
    if (first >= plain.features && first < plain.sources) all.push_back({nodes, influence});
    for (std::size_t source = 0; source < plain.sources; ++source) {
      if (shares[first][source] == 0) continue;
      std::vector<std::int64_t> longer{static_cast<std::int64_t>(source)};
      longer.insert(longer.end(), nodes.begin(), nodes.end());
      follow(longer, influence * shares[first][source]);
    }
  };
  for (std::size_t logit = plain.sources; logit < plain.n; ++logit)
    follow({static_cast<std::int64_t>(logit)}, plain.weights[logit]);
  std::ranges::sort(all, std::greater<>(), &GraphPath::influence);
  const auto made = strongest_paths(graph, 25);
  ASSERT_GT(all.size(), 25U);
  ASSERT_EQ(made.size(), 25U);
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].nodes, all[i].nodes) << i;
    EXPECT_NEAR(made[i].influence, all[i].influence, 1e-14);
  }
  EXPECT_TRUE(strongest_paths(graph, 0).empty());
}

TEST(GraphPruning, RefusesOtherShares) {
  const AttributionGraph graph = random_graph(1, false);
  EXPECT_THAT(text_thrown_by<HookError>([&] { pruned(graph, {.node_share = 1.5}); }),
              HasSubstr("node_share is 1.5"));
  EXPECT_THROW(pruned(graph, {.edge_share = -0.1}), HookError);
}

}  // namespace
}  // namespace hooked::graph_pruning_test
