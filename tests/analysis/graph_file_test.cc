// Files of attribution graphs: the form that circuit-tracer and Neuronpedia read.
#include "hooked/analysis/graph_file.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "hooked/analysis/graph_pruning.h"
#include "hooked/io/file.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::graph_file_test {
namespace {

using Document = nlohmann::ordered_json;

AttributionGraph small_graph() {
  const HookedTransformer model = random_model();
  return pruned(
      attribute_graph(model, random_transcoders(model.config(), {}), random_tokens(model.config(), {1, 6})),
      {.node_share = 0.9, .edge_share = 0.9});
}

/// What Neuronpedia's schema requires, and the types of what it allows besides.
void expect_valid(const Document& json) {
  for (const char* key : {"metadata", "qParams", "nodes", "links"}) ASSERT_TRUE(json.contains(key)) << key;
  const Document& metadata = json["metadata"];
  for (const char* key : {"slug", "scan", "prompt"}) EXPECT_TRUE(metadata.at(key).is_string()) << key;
  for (const char* key : {"prompt_tokens", "transcoder_list"})
    EXPECT_TRUE(metadata.at(key).is_array()) << key;
  EXPECT_EQ(metadata.at("schema_version"), 1);
  for (const Document& token : metadata.at("prompt_tokens")) EXPECT_TRUE(token.is_string());
  EXPECT_TRUE(metadata.at("node_threshold").is_number());
  for (const char* key : {"node_threshold", "edge_threshold"})
    EXPECT_TRUE(metadata.at("pruning_settings").at(key).is_number()) << key;
  for (const char* key : {"name", "version"})
    EXPECT_TRUE(metadata.at("info").at("generator").at(key).is_string()) << key;
  for (const auto& [key, value] : json["qParams"].items()) {
    const bool list = key == "pinnedIds" || key == "supernodes";
    EXPECT_TRUE(list ? value.is_array() : value.is_string()) << key;
  }
  std::set<std::string> ids, in_page;
  std::map<std::string, std::string> types;
  for (const Document& node : json["nodes"]) {
    for (const char* key : {"node_id", "layer", "feature_type", "jsNodeId", "clerp"})
      EXPECT_TRUE(node.at(key).is_string()) << key;
    for (const char* key : {"feature", "ctx_idx", "run_idx", "reverse_ctx_idx"})
      EXPECT_TRUE(node.at(key).is_number_integer()) << key;
    for (const char* key : {"influence", "activation"})
      EXPECT_TRUE(node.at(key).is_null() || node.at(key).is_number()) << key;
    EXPECT_TRUE(ids.insert(node["node_id"]).second) << "unique";
    in_page.insert(node["jsNodeId"]);
    types[node["node_id"]] = node["feature_type"];
  }
  std::set<std::string> linked;
  for (const Document& link : json["links"]) {
    for (const char* key : {"source", "target"}) {
      EXPECT_TRUE(ids.contains(link.at(key)));
      linked.insert(link[key]);
    }
    EXPECT_TRUE(link.at("weight").is_number());
    EXPECT_NE(types.at(link["source"]), "logit");
    const std::string target = types.at(link["target"]);
    EXPECT_TRUE(target == "logit" || target == "cross layer transcoder") << target;
  }
  for (const Document& node : json["nodes"]) {
    const std::string type = node["feature_type"];
    EXPECT_TRUE(type == "embedding" || type == "logit" || linked.contains(node["node_id"])) << node;
  }
}

TEST(GraphFile, IsThePublishedForm) {
  const AttributionGraph graph = small_graph();
  const Document json = Document::parse(graph_json(graph, {.slug = "one", .scan = "random"}));
  expect_valid(json);
  EXPECT_EQ(json["metadata"]["slug"], "one");
  std::map<std::string, int> types;
  bool target = false;
  for (const Document& node : json["nodes"]) {
    const std::string type = node["feature_type"];
    ++types[type];
    const std::int64_t layer = type == "embedding" ? 0 : std::stoll(node["layer"].get<std::string>()),
                       pos = node["ctx_idx"];
    const std::string id = node["node_id"];
    if (type == "cross layer transcoder") {
      const std::int64_t feature = std::stoll(id.substr(id.find('_') + 1));
      EXPECT_EQ(id, fmt::format("{}_{}_{}", layer, feature, pos));
      EXPECT_EQ(node["feature"], (layer + feature) * (layer + feature + 1) / 2 + feature);
      EXPECT_EQ(node["jsNodeId"], fmt::format("{}_{}-0", layer, feature));
      EXPECT_GT(node["activation"], 0.0);
    } else if (type == "mlp reconstruction error") {
      EXPECT_EQ(id, fmt::format("{}_-1_{}", layer, pos));
      EXPECT_EQ(node["feature"], -1);
      EXPECT_EQ(node["jsNodeId"], fmt::format("{}_-1-{}", layer, pos));
    } else if (type == "embedding") {
      EXPECT_EQ(node["layer"], "E");
      EXPECT_EQ(node["feature"], pos);
      EXPECT_TRUE(id.starts_with("E_") && id.ends_with(fmt::format("_{}", pos)));
    } else {
      EXPECT_EQ(node["layer"], "4") << "the number of layers and 1";
      EXPECT_EQ(id, fmt::format("4_{}_5", node["feature"].get<int>()));
      EXPECT_EQ(node["jsNodeId"], fmt::format("L_{}-5", node["feature"].get<int>()));
      EXPECT_EQ(node["is_target_logit"].get<bool>(), !target);
      EXPECT_TRUE(node["influence"].is_null());
      EXPECT_TRUE(node["clerp"].get<std::string>().starts_with("Output \""));
      target = true;
    }
  }
  EXPECT_EQ(types.size(), 4u) << "the graph has all kinds of nodes";
  EXPECT_EQ(types["embedding"], 6);
  EXPECT_EQ(types["logit"], graph.logits);
}

/// Two features, a token and a logit, with one edge into each target.
AttributionGraph graph_by_hand() {
  AttributionGraph graph;
  graph.layers = 2;
  graph.nodes = {{.kind = GraphNodeKind::feature, .layer = 0, .pos = 0, .id = 4, .value = 1.5},
                 {.kind = GraphNodeKind::feature, .layer = 1, .pos = 0, .id = 9, .value = -2.5},
                 {.kind = GraphNodeKind::token, .pos = 0, .id = 7},
                 {.kind = GraphNodeKind::logit, .pos = 0, .id = 3, .value = 1, .text = "x"}};
  graph.features = graph.active = 2;
  graph.tokens = graph.logits = 1;
  graph.prompt_tokens = {"y"};
  graph.edges = at::tensor({0.0, 0.0, 2.0, 3.0, 0.0, 0.0, 0.0, 5.0, 0.0}, at::kDouble).view({3, 3});
  return graph;
}

TEST(GraphFile, LinksGoFromTheSourceToTheTarget) {
  const Document json = Document::parse(graph_json(graph_by_hand(), {}));
  expect_valid(json);
  const auto link = [](const char* source, const char* target, double weight) {
    return Document{{"source", source}, {"target", target}, {"weight", weight}};
  };
  EXPECT_EQ(json["links"],
            (Document{link("E_7_0", "0_4_0", 2), link("0_4_0", "1_9_0", 3), link("1_9_0", "3_3_0", 5)}));
  EXPECT_EQ(json["nodes"][0]["activation"], 1.5);
  EXPECT_EQ(json["nodes"][0]["feature"], 14) << "4 * 5 / 2 + 4";
  EXPECT_EQ(json["nodes"][1]["activation"], -2.5);
  EXPECT_EQ(json["nodes"][1]["feature"], 64) << "10 * 11 / 2 + 9";
}

TEST(GraphFile, WhatJsonCannotHoldIsRefused) {
  AttributionGraph graph = graph_by_hand();
  graph.edges[1][0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { graph_json(graph, {}); }),
              HasSubstr("the effect of 0_4_0 on 1_9_0 is nan; expected a finite number"));
}

// Neuronpedia's schema has layers as texts or numbers.
TEST(GraphFile, LayersMayBeNumbers) {
  const TempFolder folder;
  Document json = Document::parse(graph_json(graph_by_hand(), {}));
  for (Document& node : json["nodes"])
    if (node["layer"] != "E") node["layer"] = std::stoi(node["layer"].get<std::string>());
  write_file(folder.path() / "numbers.json", json.dump());
  const AttributionGraph read = load_graph(folder.path() / "numbers.json");
  EXPECT_EQ(read.nodes[1].layer, 1);
  EXPECT_EQ(read.edge(0, 1), 3);
  json["nodes"][0]["layer"] = 1.5;
  write_file(folder.path() / "numbers.json", json.dump());
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { load_graph(folder.path() / "numbers.json"); }),
              HasSubstr("layer"));
}

TEST(GraphFile, IsReadBack) {
  const TempFolder folder;
  const AttributionGraph graph = small_graph();
  save_graph(graph, folder.path() / "one.json");
  save_graph(graph, folder.path() / "two.json", {.scan = "x"});
  save_graph(graph, folder.path() / "one.json", {.scan = "y"});
  const Document list = Document::parse(read_text_file(folder.path() / "graph-metadata.json", 1 << 20));
  ASSERT_EQ(list["graphs"].size(), 2u);
  EXPECT_EQ(list["graphs"][0]["slug"], "two");
  EXPECT_EQ(list["graphs"][1]["scan"], "y") << "replaced";
  const AttributionGraph read = load_graph(folder.path() / "one.json");
  EXPECT_EQ(read.prompt_tokens, graph.prompt_tokens);
  EXPECT_EQ(read.layers, graph.layers);
  EXPECT_EQ(read.features, graph.features);
  std::map<std::string, std::int64_t> places;
  const auto key = [](const GraphNode& node) {
    return fmt::format("{} {} {} {}", static_cast<int>(node.kind), node.layer, node.pos, node.id);
  };
  for (std::int64_t i = 0; i < std::ssize(read.nodes); ++i)
    places[key(read.nodes[static_cast<std::size_t>(i)])] = i;
  for (std::int64_t row = 0; row < graph.edges.size(0); ++row) {
    for (std::int64_t source = 0; source < graph.edges.size(1); ++source) {
      const double weight = graph.edge(source, graph.target(row));
      if (weight == 0) continue;
      const GraphNode& from = graph.nodes[static_cast<std::size_t>(source)];
      const GraphNode& to = graph.nodes[static_cast<std::size_t>(graph.target(row))];
      EXPECT_EQ(read.edge(places.at(key(from)), places.at(key(to))), weight);
      EXPECT_EQ(read.nodes[static_cast<std::size_t>(places.at(key(from)))].influence, from.influence);
    }
  }
}

TEST(GraphFile, AListThatIsNoneIsFoundBeforeTheWork) {
  const TempFolder folder;
  write_file(folder.path() / "graph-metadata.json", R"({"graphs": "no"})");
  EXPECT_THAT(text_thrown_by<IoError>([&] { require_can_save_graph(folder.path() / "one.json"); }),
              HasSubstr("it has no list `graphs`"));
  save_graph(graph_by_hand(), folder.path() / "one.json", {.add_to_list = false});
  EXPECT_EQ(load_graph(folder.path() / "one.json").features, 2);
}

std::string with_old_ids(const AttributionGraph& graph) {
  Document json = Document::parse(graph_json(graph, {.slug = "old"}));
  std::map<std::string, std::string> renamed;
  for (Document& node : json["nodes"]) {
    if (node["feature_type"] != "mlp reconstruction error") continue;
    const std::string old =
        fmt::format("0_{}_{}", node["layer"].get<std::string>(), node["ctx_idx"].get<int>());
    renamed[node["node_id"]] = old;
    node["node_id"] = old;
  }
  for (Document& link : json["links"]) {
    if (const auto found = renamed.find(link["source"]); found != renamed.end())
      link["source"] = found->second;
  }
  return json.dump();
}

TEST(GraphFile, OldIdsOfErrorsAreRead) {
  const TempFolder folder;
  AttributionGraph graph = small_graph();
  // Without a feature that has the old id of an error.
  for (GraphNode& node : graph.nodes) {
    if (node.kind == GraphNodeKind::feature) node.id += 100;
  }
  write_file(folder.path() / "old.json", with_old_ids(graph));
  const AttributionGraph read = load_graph(folder.path() / "old.json");
  EXPECT_GT(read.errors, 0);
  EXPECT_NEAR(read.edges.slice(1, read.features, read.features + read.errors).sum().item<double>(),
              graph.edges.slice(1, graph.features, graph.features + graph.errors).sum().item<double>(), 1e-5);
  // Layer 0 has a feature 1, and layer 1 an error, at the same position.
  bool made = false;
  for (GraphNode& node : graph.nodes) {
    if (node.kind != GraphNodeKind::feature) continue;
    for (const GraphNode& error : graph.nodes) {
      if (error.kind != GraphNodeKind::error || error.pos != node.pos || node.layer != 0 || made) continue;
      node.id = error.layer;
      made = true;
    }
  }
  ASSERT_TRUE(made);
  write_file(folder.path() / "both.json", with_old_ids(graph));
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { load_graph(folder.path() / "both.json"); }),
              HasSubstr("is the id of 2 nodes"));
}

TEST(GraphFile, RefusesWhatIsNoGraph) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& text) {
    write_file(folder.path() / "bad.json", text);
    return text_thrown_by<CheckpointError>([&] { load_graph(folder.path() / "bad.json"); });
  };
  Document good = Document::parse(graph_json(small_graph(), {.slug = "s"}));
  EXPECT_THAT(refusal("[]"), HasSubstr("not an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("expected a graph"));
  Document bad = good;
  bad["links"][0]["source"] = "9_9_9";
  EXPECT_THAT(refusal(bad.dump()), HasSubstr("'9_9_9' is the id of 0 nodes"));
  bad = good;
  bad["nodes"][0]["feature_type"] = "lorsa";
  EXPECT_THAT(refusal(bad.dump()), HasSubstr("got 'lorsa'"));
  bad = good;
  bad["nodes"][0]["layer"] = "-1";
  EXPECT_THAT(refusal(bad.dump()), HasSubstr("expected a number"));
  bad = good;
  bad["nodes"][0]["ctx_idx"] = 6;
  EXPECT_THAT(refusal(bad.dump()), HasSubstr("there is no token 6; expected less than 6"));
  bad = good;
  bad["links"].push_back(bad["links"][0]);
  EXPECT_THAT(refusal(bad.dump()), HasSubstr("this link is there twice"));
  write_file(folder.path() / "other.json", "{}");
  EXPECT_THROW(save_graph(small_graph(), folder.path() / "other.json"), IoError) << "not ours";
  write_file(folder.path() / "graph-metadata.json", "7");
  EXPECT_THROW(save_graph(small_graph(), folder.path() / "new.json"), IoError);
  EXPECT_NO_THROW(save_graph(small_graph(), folder.path() / "new.json", {.add_to_list = false}));
}

}  // namespace
}  // namespace hooked::graph_file_test
