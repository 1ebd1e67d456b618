// Pictures of nodes and links: what they draw, and those of graphs and circuits.
#include "hooked/analysis/node_links.h"

#include <cmath>

#include "hooked/analysis/circuit_links.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/graph_links.h"
#include "hooked/analysis/graph_pruning.h"
#include "tests/analysis/picture.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::node_links_test {
namespace {

NodeLinks triangle() {
  return {.title = "A title",
          .unit = "a unit",
          .column_name = "token",
          .rows = {"below", "above"},
          .columns = {"0", "1"},
          .nodes = {{.text = "a", .says = "<a>", .row = 0, .column = 0},
                    {.text = "b", .says = "b", .row = 0, .column = 1},
                    {.text = "c", .says = "c", .row = 1, .column = 1, .faint = true}},
          .links = {{.source = 0, .target = 2, .weight = -2}, {.source = 1, .target = 2, .weight = 0.5}}};
}

TEST(NodeLinks, AreDrawnWhereTheyStand) {
  const std::string svg = node_link_svg(triangle());
  const SvgElement root = SvgReader::read(svg);
  const auto nodes = root.all([](const auto& e) { return e.has_class("node"); });
  ASSERT_EQ(nodes.size(), 3U);
  const auto at = [&](std::size_t i, const char* key) { return nodes[i]->child("rect")->number(key); };
  EXPECT_EQ(at(0, "y"), at(1, "y"));
  EXPECT_LT(at(2, "y"), at(1, "y")) << "rows count from below";
  EXPECT_LT(at(0, "x"), at(1, "x"));
  EXPECT_NEAR(at(1, "x"), at(2, "x"), 2) << "their texts are not of one width";
  EXPECT_EQ(nodes[0]->child("title")->text, "<a>");
  EXPECT_TRUE(nodes[2]->has_class("faint"));
  EXPECT_EQ(nodes[0]->attribute("tabindex"), "0");
  const auto links = root.all([](const auto& e) { return e.has_class("link"); });
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0]->child("title")->text, "b to c: 0.5") << "the strongest are drawn last";
  EXPECT_TRUE(links[0]->has_class("up"));
  EXPECT_TRUE(links[1]->has_class("down"));
  EXPECT_GT(links[1]->number("stroke-width"), links[0]->number("stroke-width"));
}

TEST(NodeLinks, NodesOfOnePlaceDoNotCoverEachOther) {
  NodeLinks figure = triangle();
  for (int i = 0; i < 40; ++i)
    figure.nodes.push_back({.text = std::to_string(1000 + i), .says = "", .row = 1, .column = 0});
  const SvgElement root = SvgReader::read(node_link_svg(figure));
  std::vector<std::array<double, 3>> boxes;
  for (const auto* node : root.all([](const auto& e) { return e.has_class("node"); })) {
    const auto* rect = node->child("rect");
    boxes.push_back({rect->number("x"), rect->number("y"), rect->number("width")});
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool same_line = std::abs(boxes[i][1] - boxes[j][1]) < 16;
      const bool apart = boxes[i][0] >= boxes[j][0] + boxes[j][2] || boxes[j][0] >= boxes[i][0] + boxes[i][2];
      EXPECT_TRUE(!same_line || apart) << i << " and " << j;
    }
  }
}

TEST(NodeLinks, WhatIsNotThereIsRefused) {
  NodeLinks figure = triangle();
  figure.nodes[0].row = 2;
  EXPECT_THROW(node_link_svg(figure), ShapeError);
  figure = triangle();
  figure.links[0].target = 3;
  EXPECT_THROW(node_link_svg(figure), ShapeError);
}

TEST(NodeLinks, OfAGraphAreItsStrongestEdges) {
  const HookedTransformer model = random_model();
  const AttributionGraph graph = pruned(
      attribute_graph(model, random_transcoders(model.config(), {}), random_tokens(model.config(), {1, 6})));
  const at::Tensor sizes = std::get<0>(graph.edges.abs().flatten().sort(-1, /*descending=*/true));
  const NodeLinks figure = node_links(graph, 5);
  ASSERT_EQ(figure.links.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_DOUBLE_EQ(std::abs(figure.links[i].weight), sizes[static_cast<std::int64_t>(i)].item<double>());
  EXPECT_EQ(std::ssize(figure.rows), graph.layers + 2);
  EXPECT_EQ(figure.columns.size(), 6U);
  std::int64_t below = 0, above = 0;
  for (const LinkedNode& node : figure.nodes) {
    below += node.row == 0;
    above += node.row == graph.layers + 1;
  }
  EXPECT_EQ(below, graph.tokens);
  EXPECT_EQ(above, graph.logits);
  for (const NodeLink& link : figure.links)
    EXPECT_LT(figure.nodes[static_cast<std::size_t>(link.source)].row,
              figure.nodes[static_cast<std::size_t>(link.target)].row);
  EXPECT_EQ(std::ssize(node_links(graph, 1 << 20).links), graph.edges.ne(0).sum().item<std::int64_t>());
  EXPECT_TRUE(node_links(graph, 0).links.empty());
}

TEST(NodeLinks, OfACircuitJoinTheInputsOfAHead) {
  const HookedTransformer model = random_model();
  const std::vector<CircuitEdge> edges{
      {"head 0.1", "head 1.2 q"}, {"head 0.1", "head 1.2 k"}, {"embed", "head 0.1 v"}, {"mlp 0", "logits"}};
  const Circuit circuit = Circuit::of_edges(model, edges);
  const Grid scores(
      at::tensor({1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, -8.0}, at::kDouble).view({3, 4}),
      {{"writer", {"head 0.1", "embed", "mlp 0"}},
       {"reader", {"head 1.2 q", "head 1.2 k", "head 0.1 v", "logits"}}},
      {.title = "t", .unit = "u"});
  const NodeLinks figure = node_links(circuit, scores);
  ASSERT_EQ(figure.links.size(), 3U);
  std::map<std::string, double> found;
  for (const NodeLink& link : figure.links)
    found[figure.nodes[static_cast<std::size_t>(link.source)].text + " > " +
          figure.nodes[static_cast<std::size_t>(link.target)].text] = link.weight;
  EXPECT_EQ(found, (std::map<std::string, double>{
                       {"head 0.1 > head 1.2", 3}, {"embed > head 0.1", 4}, {"mlp 0 > logits", -8}}));
  EXPECT_EQ(figure.rows, (std::vector<std::string>{"embed", "head 0", "mlp 0", "head 1", "logits"}));
  EXPECT_THAT(node_link_svg(figure), HasSubstr("head 0.1 to head 1.2: 3"));
  EXPECT_THROW(node_links(Circuit::of_nodes(model, {"head 0.1"}), scores), HookError);
  const Circuit other = Circuit::of_edges(model, {{"head 0.0", "head 1.2 q"}});
  EXPECT_THROW(node_links(other, scores), ShapeError);
}

}  // namespace
}  // namespace hooked::node_links_test
