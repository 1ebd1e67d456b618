// Attribution graphs as JSON files.
#include "hooked/analysis/graph_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/version.h"
#include "hooked/io/file.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

constexpr std::uint64_t kMostGraphBytes = std::uint64_t{1} << 30;
constexpr const char* kGraphList = "graph-metadata.json";
constexpr const char* kGenerator = "hooked";
/// Layers and positions of a file; more is refused, because edges are a matrix.
constexpr std::int64_t kMostNodes = 1 << 20;

/// How a kind of node is called in files.
constexpr std::array<Named<GraphNodeKind>, 4> kNodeTypes = {
    Named<GraphNodeKind>{"cross layer transcoder", GraphNodeKind::feature},
    Named<GraphNodeKind>{"mlp reconstruction error", GraphNodeKind::error},
    Named<GraphNodeKind>{"embedding", GraphNodeKind::token},
    Named<GraphNodeKind>{"logit", GraphNodeKind::logit}};

std::string_view type_of(GraphNodeKind kind) {
  return std::ranges::find(kNodeTypes, kind, &Named<GraphNodeKind>::value)->name;
}

/// One number for layer and feature.
std::int64_t cantor_pair(std::int64_t layer, std::int64_t feature) {
  return (layer + feature) * (layer + feature + 1) / 2 + feature;
}

/// The feature of such a number.
std::int64_t feature_of_pair(std::int64_t number) {
  auto sum = static_cast<std::int64_t>((std::sqrt(8.0 * static_cast<double>(number) + 1) - 1) / 2);
  while ((sum + 1) * (sum + 2) / 2 <= number) ++sum;
  while (sum * (sum + 1) / 2 > number) --sum;
  return number - sum * (sum + 1) / 2;
}

struct NodeText {
  std::string id, layer, in_page;
  std::int64_t feature;
};

NodeText text_of(const GraphNode& node, std::int64_t layers) {
  const auto at = [&](const auto& layer, const auto& id) {
    return fmt::format("{}_{}_{}", layer, id, node.pos);
  };
  switch (node.kind) {
    case GraphNodeKind::feature:
      return {at(node.layer, node.id), std::to_string(node.layer),
              fmt::format("{}_{}-0", node.layer, node.id), cantor_pair(node.layer, node.id)};
    case GraphNodeKind::error:
      return {at(node.layer, -1), std::to_string(node.layer), fmt::format("{}_-1-{}", node.layer, node.pos),
              -1};
    case GraphNodeKind::token:
      return {at("E", node.id), "E", fmt::format("E_{}-{}", node.id, node.pos), node.pos};
    case GraphNodeKind::logit:
      break;
  }
  return {at(layers + 1, node.id), std::to_string(layers + 1), fmt::format("L_{}-{}", node.id, node.pos),
          node.id};
}

Json node_json(const GraphNode& node, std::int64_t layers, bool is_first_logit) {
  const NodeText text = text_of(node, layers);
  const bool logit = node.kind == GraphNodeKind::logit;
  Json json{{"node_id", text.id},
            {"feature", text.feature},
            {"layer", text.layer},
            {"ctx_idx", node.pos},
            {"feature_type", type_of(node.kind)},
            {"token_prob", logit ? node.value : 0.0},
            {"is_target_logit", logit && is_first_logit},
            {"run_idx", 0},
            {"reverse_ctx_idx", 0},
            {"jsNodeId", text.in_page},
            {"clerp", logit ? fmt::format("Output \"{}\" (p={:.3f})", node.text, node.value) : ""},
            {"influence", nullptr},
            {"activation", nullptr}};
  if (node.influence && !logit) json["influence"] = *node.influence;
  if (node.kind == GraphNodeKind::feature) json["activation"] = node.value;
  return json;
}

Json metadata_json(const AttributionGraph& graph, const GraphFileOptions& options) {
  return {
      {"slug", options.slug},
      {"scan", options.scan},
      {"transcoder_list", options.transcoders},
      {"prompt_tokens", graph.prompt_tokens},
      {"prompt", graph.prompt},
      {"node_threshold", options.node_share},
      {"schema_version", 1},
      {"info", {{"generator", {{"name", kGenerator}, {"version", version()}}}}},
      {"pruning_settings", {{"node_threshold", options.node_share}, {"edge_threshold", options.edge_share}}}};
}

Json document_of(const AttributionGraph& graph, const GraphFileOptions& options) {
  Json links = Json::array(), nodes = Json::array();
  std::set<std::int64_t> linked;
  std::vector<std::string> ids;
  for (const GraphNode& node : graph.nodes) ids.push_back(text_of(node, graph.layers).id);
  const at::Tensor places = at::nonzero(graph.edges).contiguous();
  const at::Tensor weights = graph.edges.masked_select(graph.edges.ne(0)).to(at::kDouble);
  const auto* place = places.const_data_ptr<std::int64_t>();
  const auto* weight = weights.const_data_ptr<double>();
  for (std::int64_t i = 0; i < places.size(0); ++i) {
    const std::int64_t target = graph.target(place[2 * i]), source = place[2 * i + 1];
    if (!std::isfinite(weight[i])) {
      throw ConfigError(
          "graph", fmt::format("the effect of {} on {} is {}; expected a finite number, as JSON "
                               "holds no others; look at the run with not_finite()",
                               ids[static_cast<std::size_t>(source)], ids[static_cast<std::size_t>(target)],
                               weight[i]));
    }
    linked.insert({source, target});
    links.push_back({{"source", ids[static_cast<std::size_t>(source)]},
                     {"target", ids[static_cast<std::size_t>(target)]},
                     {"weight", weight[i]}});
  }
  const std::int64_t first_logit = std::ssize(graph.nodes) - graph.logits;
  for (std::int64_t i = 0; i < std::ssize(graph.nodes); ++i) {
    const GraphNode& node = graph.nodes[static_cast<std::size_t>(i)];
    const bool always = node.kind == GraphNodeKind::token || node.kind == GraphNodeKind::logit;
    if (always || linked.contains(i)) nodes.push_back(node_json(node, graph.layers, i == first_logit));
  }
  return {{"metadata", metadata_json(graph, options)},
          {"qParams",
           {{"pinnedIds", Json::array()},
            {"supernodes", Json::array()},
            {"linkType", "both"},
            {"clickedId", ""},
            {"sg_pos", ""}}},
          {"nodes", nodes},
          {"links", links}};
}

ConfigReader graph_reader(const std::filesystem::path& file, const char* expected) {
  const std::string where = file.string();
  Json document;
  try {
    document = parse_json(read_text_file(file, kMostGraphBytes), {.bytes = kMostGraphBytes, .depth = 16});
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(where, fmt::format("{}; expected {}", error.what(), expected));
  }
  if (!document.is_object())
    throw CheckpointError(where, fmt::format("this is not an object; expected {}", expected));
  return ConfigReader(std::move(document), where, make_error<CheckpointError>);
}

bool is_own_graph(const std::filesystem::path& file) {
  const ConfigReader metadata = graph_reader(file, "a graph").object("metadata");
  return metadata.object("info").object("generator").text("name") == kGenerator;
}

/// The list of graphs next to a file, with this one in the place of another of its name.
std::string list_with(const std::filesystem::path& list, const Json& metadata) {
  Json graphs = Json::array();
  if (std::filesystem::exists(list)) {
    Json old;
    try {
      old = parse_json(read_text_file(list, kMostGraphBytes), {.bytes = kMostGraphBytes, .depth = 16});
    } catch (const std::invalid_argument& error) {
      throw IoError(list.string(),
                    fmt::format("{}; expected a list of graphs, or no such file", error.what()));
    }
    if (!old.is_object() || !old.contains("graphs") || !old["graphs"].is_array())
      throw IoError(list.string(), "it has no list `graphs`; expected a list of graphs, or no such file");
    for (const Json& each : old["graphs"]) {
      if (!each.is_object() || !each.contains("slug") || each["slug"] != metadata["slug"])
        graphs.push_back(each);
    }
  }
  graphs.push_back(metadata);
  return json_text(Json{{"graphs", graphs}}) + '\n';
}

GraphNode node_of(const ConfigReader& reader) {
  GraphNode node;
  const std::string type = reader.text("feature_type");
  const auto found = std::ranges::find(kNodeTypes, type, &Named<GraphNodeKind>::name);
  if (found == kNodeTypes.end()) {
    throw CheckpointError(
        reader.where("feature_type"),
        fmt::format("got '{}'; expected a graph of transcoders, whose nodes are '{}', '{}', "
                    "'{}' and '{}'",
                    type, kNodeTypes[0].name, kNodeTypes[1].name, kNodeTypes[2].name, kNodeTypes[3].name));
  }
  node.kind = found->value;
  node.pos = reader.count("ctx_idx", kMostNodes);
  const std::string layer =
      reader.holds_text("layer") ? reader.text("layer") : std::to_string(reader.count("layer", kMostNodes));
  const auto number = [&] {
    if (layer.empty() || layer.size() > 6 ||
        !std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; }))
      throw CheckpointError(reader.where("layer"), fmt::format("got '{}'; expected a number", layer));
    return std::stoll(layer);
  };
  if (reader.has("influence")) node.influence = reader.number("influence");
  switch (node.kind) {
    case GraphNodeKind::feature:
      node.layer = number();
      node.id = feature_of_pair(reader.count("feature", std::int64_t{1} << 52));
      node.value = reader.number_or("activation", 0);
      break;
    case GraphNodeKind::error:
      node.layer = number();
      break;
    case GraphNodeKind::token: {
      // E_{id}_{pos}
      const std::string id = reader.text("node_id");
      const std::size_t end = id.rfind('_');
      const std::string digits = end > 2 && end != std::string::npos ? id.substr(2, end - 2) : "";
      if (digits.empty() || digits.size() > 9 ||
          !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
        throw CheckpointError(reader.where("node_id"),
                              fmt::format("got '{}'; expected E_, the token and _ with its column", id));
      node.id = std::stoll(digits);
      break;
    }
    case GraphNodeKind::logit: {
      node.id = reader.count("feature", std::int64_t{1} << 52);
      node.value = reader.number_or("token_prob", 0);
      const std::string clerp = reader.text_or("clerp", "");
      const std::size_t begin = clerp.find('"'), end = clerp.rfind('"');
      if (begin != std::string::npos && end > begin) node.text = clerp.substr(begin + 1, end - begin - 1);
      node.layer = number() - 1;  // the number of layers, until it is known of the graph
      break;
    }
  }
  return node;
}

void require_graph_name(const std::filesystem::path& file, Overwrite overwrite) {
  require_replaceable(file, {.name = "a graph", .endings = {".json"}, .is_ours = is_own_graph}, overwrite);
  if (file.filename() == kGraphList)
    throw IoError(file.string(), "this is the name of the list of graphs; expected another name");
}

}  // namespace

std::string graph_json(const AttributionGraph& graph, const GraphFileOptions& options) {
  return json_text(document_of(graph, options));
}

void require_can_save_graph(const std::filesystem::path& file, Overwrite overwrite) {
  require_graph_name(file, overwrite);
  list_with(file.parent_path() / kGraphList, {{"slug", ""}});
}

void save_graph(const AttributionGraph& graph, const std::filesystem::path& file,
                const GraphFileOptions& given, Overwrite overwrite) {
  require_graph_name(file, overwrite);
  GraphFileOptions options = given;
  if (options.slug.empty()) options.slug = file.stem().string();
  const std::filesystem::path list = file.parent_path() / kGraphList;
  const std::string listed = options.add_to_list ? list_with(list, metadata_json(graph, options)) : "";
  write_file(file, graph_json(graph, options) + '\n');
  if (options.add_to_list) write_file(list, listed);
}

AttributionGraph load_graph(const std::filesystem::path& file) {
  const ConfigReader reader = graph_reader(file, "a graph of circuit-tracer or Neuronpedia");
  AttributionGraph graph;
  const ConfigReader metadata = reader.object("metadata");
  graph.prompt = metadata.text("prompt");
  graph.prompt_tokens = metadata.texts("prompt_tokens");
  std::vector<std::pair<std::string, GraphNode>> nodes;
  for (const ConfigReader& each : reader.objects("nodes")) {
    nodes.emplace_back(each.text("node_id"), node_of(each));
    if (nodes.back().second.pos >= std::ssize(graph.prompt_tokens))
      throw CheckpointError(each.where("ctx_idx"),
                            fmt::format("there is no token {}; expected less than {}, the number of "
                                        "`prompt_tokens`",
                                        nodes.back().second.pos, graph.prompt_tokens.size()));
  }
  if (std::ssize(nodes) > kMostNodes)
    throw CheckpointError(
        file.string(), fmt::format("{} nodes are too many; expected at most {}", nodes.size(), kMostNodes));
  std::ranges::stable_sort(nodes, {}, [](const auto& node) { return node.second.kind; });
  std::map<std::string, std::vector<std::int64_t>> places;
  std::set<std::tuple<GraphNodeKind, std::int64_t, std::int64_t, std::int64_t>> there;
  for (auto& [id, node] : nodes) {
    places[id].push_back(std::ssize(graph.nodes));
    if (!there.emplace(node.kind, node.layer, node.id, node.pos).second)
      throw CheckpointError(
          file.string(),
          fmt::format("'{}' is a node that is there twice; expected each once", printable(id)));
    graph.features += node.kind == GraphNodeKind::feature;
    graph.errors += node.kind == GraphNodeKind::error;
    graph.tokens += node.kind == GraphNodeKind::token;
    graph.logits += node.kind == GraphNodeKind::logit;
    if (node.kind == GraphNodeKind::token && node.pos < std::ssize(graph.prompt_tokens))
      node.text = graph.prompt_tokens[static_cast<std::size_t>(node.pos)];
    graph.layers = std::max(graph.layers, node.kind == GraphNodeKind::logit ? node.layer : node.layer + 1);
    if (node.kind == GraphNodeKind::logit) node.layer = -1;
    graph.nodes.push_back(node);
  }
  graph.active = graph.features;
  graph.edges =
      at::zeros({graph.features + graph.logits, graph.features + graph.errors + graph.tokens}, at::kDouble);
  const auto place = [&](const ConfigReader& link, const char* key, bool as_target) {
    const std::string id = link.text(key);
    std::vector<std::int64_t> found;
    if (const auto all = places.find(id); all != places.end()) found = all->second;
    // Only features and logits are targets; an error's old id can be that of a feature of layer 0.
    std::erase_if(found, [&](std::int64_t node) {
      const GraphNodeKind kind = graph.nodes[static_cast<std::size_t>(node)].kind;
      return as_target ? kind == GraphNodeKind::error || kind == GraphNodeKind::token
                       : kind == GraphNodeKind::logit;
    });
    if (found.size() != 1) {
      throw CheckpointError(
          link.where(key),
          fmt::format("'{}' is the id of {} nodes that could be meant; expected one{}", id, found.size(),
                      found.size() > 1 ? ", as new ids of errors have it" : ""));
    }
    return found.front();
  };
  auto* edges = graph.edges.mutable_data_ptr<double>();
  std::vector<bool> read(static_cast<std::size_t>(graph.edges.numel()));
  for (const ConfigReader& link : reader.objects("links")) {
    const std::int64_t row = graph.row_of(place(link, "target", true));
    const std::int64_t column = graph.column_of(place(link, "source", false));
    const std::int64_t at = row * graph.edges.size(1) + column;
    if (read[static_cast<std::size_t>(at)])
      throw CheckpointError(link.where("source"), "this link is there twice; expected each link once");
    read[static_cast<std::size_t>(at)] = true;
    edges[at] = link.number("weight");
  }
  return graph;
}

}  // namespace hooked
