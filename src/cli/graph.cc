// hooked graph: which features, errors and tokens lead to the next token, and by which heads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/graph_features.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/text_notes.h"
#include "core/number_text.h"
#include "hooked/analysis/attribution_graph.h"
#include "hooked/analysis/graph_file.h"
#include "hooked/analysis/graph_interventions.h"
#include "hooked/analysis/graph_pruning.h"

namespace hooked::cli {
namespace {

/// A head that carries a part of an edge.
struct CarryingHead {
  std::int64_t layer, head;
  double share;  ///< of the edge
};

/// A path, and for each of its edges what carries it.
struct ShownPath {
  GraphPath path;
  std::vector<std::vector<CarryingHead>> heads;
};

/// All that the command found.
struct FoundGraph {
  AttributionGraph whole, pruned;
  GraphScores scores;
  std::vector<ShownPath> paths;
};

// Heads that carry less of an edge are not named.
constexpr double kLeastShare = 0.2;

// `3.1024 @5`, `error 3 @5`, `'Mary' @5`, `logit 'Mary'`
std::string node_text(const HookedTransformer& model, const GraphNode& node) {
  switch (node.kind) {
    case GraphNodeKind::feature:
      return fmt::format("{}.{} @{}", node.layer, node.id, node.pos);
    case GraphNodeKind::error:
      return fmt::format("error {} @{}", node.layer, node.pos);
    case GraphNodeKind::token:
      return fmt::format("{} @{}", quoted_piece(model, node.id), node.pos);
    case GraphNodeKind::logit:
      break;
  }
  return "logit " + quoted_piece(model, node.id);
}

// The heads of one row [layer, part] of edge_heads.
std::vector<CarryingHead> heads_of(const at::Tensor& parts) {
  std::vector<CarryingHead> heads;
  for (std::int64_t layer = 0; layer < parts.size(0); ++layer) {
    const double whole = parts[layer].sum().item<double>();
    for (std::int64_t head = 0; head + 1 < parts.size(1); ++head) {
      const double share = parts[layer][head].item<double>() / whole;
      if (std::abs(share) >= kLeastShare) heads.push_back({layer, head, share});
    }
  }
  return heads;
}

std::vector<ShownPath> shown_paths(const HookedTransformer& model, const GraphFeatures& features,
                                   const Input& input, const AttributionGraph& graph, std::int64_t count) {
  std::vector<GraphEdge> edges;
  const auto paths = strongest_paths(graph, count);
  for (const GraphPath& path : paths) {
    for (std::size_t i = 1; i < path.nodes.size(); ++i) edges.push_back({path.nodes[i - 1], path.nodes[i]});
  }
  if (edges.empty()) return {};
  const Grid parts = edge_heads(model, features, input, graph, edges);
  std::vector<ShownPath> shown;
  std::int64_t edge = 0;
  for (const GraphPath& path : paths) {
    ShownPath& made = shown.emplace_back(ShownPath{.path = path, .heads = {}});
    for (std::size_t i = 1; i < path.nodes.size(); ++i)
      made.heads.push_back(heads_of(parts.values()[edge++]));
  }
  return shown;
}

std::string path_text(const HookedTransformer& model, const ShownPath& shown, const AttributionGraph& graph) {
  std::string text;
  for (std::size_t i = 0; i < shown.path.nodes.size(); ++i) {
    if (i > 0) {
      std::vector<std::string> heads;
      for (const auto& [layer, head, share] : shown.heads[i - 1])
        heads.push_back(fmt::format("{}.{}", layer, head));
      text += heads.empty() ? " -> " : fmt::format(" -[head {}]-> ", fmt::join(heads, ", "));
    }
    text += node_text(model, graph.nodes[static_cast<std::size_t>(shown.path.nodes[i])]);
  }
  return text;
}

void print_found(const HookedTransformer& model, const FoundGraph& found, const GraphOptions& options) {
  const AttributionGraph& whole = found.whole;
  fmt::print("{} of {} active features, {} errors, {} tokens\n", grouped(whole.features),
             grouped(whole.active), grouped(whole.errors), whole.tokens);
  fmt::print("replacement score {}, completeness {}\n", fixed_text(found.scores.replacement, 3),
             fixed_text(found.scores.completeness, 3));
  fmt::print("pruned to {} and {} of the influence of nodes and edges: {} features, {} errors, {} edges\n\n",
             options.node_share, options.edge_share, grouped(found.pruned.features),
             grouped(found.pruned.errors), grouped(found.pruned.edges.ne(0).sum().item<std::int64_t>()));
  Table logits({{"logit of"}, {"probability", Align::right}});
  for (const GraphNode& node : found.pruned.nodes) {
    if (node.kind == GraphNodeKind::logit)
      logits.add({quoted_piece(model, node.id), probability_text(node.value, 4)});
  }
  logits.print();
  if (found.paths.empty()) return;
  fmt::print("\nstrongest paths (features as layer.number @column)\n");
  Table paths({{"influence", Align::right}, {"path"}});
  for (const ShownPath& shown : found.paths)
    paths.add({probability_text(shown.path.influence, 4), path_text(model, shown, found.pruned)});
  paths.print();
}

Json node_json(const HookedTransformer& model, const GraphNode& node) {
  switch (node.kind) {
    case GraphNodeKind::feature:
      return {{"kind", "feature"},
              {"layer", node.layer},
              {"position", node.pos},
              {"id", node.id},
              {"value", number_json(node.value)}};
    case GraphNodeKind::error:
      return {{"kind", "error"}, {"layer", node.layer}, {"position", node.pos}};
    case GraphNodeKind::token: {
      Json json = token_json(model, node.id);
      json["kind"] = "token";
      json["position"] = node.pos;
      return json;
    }
    case GraphNodeKind::logit:
      break;
  }
  Json json = token_json(model, node.id);
  json["kind"] = "logit";
  json["probability"] = number_json(node.value);
  return json;
}

Json found_json(const HookedTransformer& model, const FoundGraph& found) {
  Json json = model_json(model);
  json["active"] = found.whole.active;
  json["features"] = found.whole.features;
  json["errors"] = found.whole.errors;
  json["replacement"] = number_json(found.scores.replacement);
  json["completeness"] = number_json(found.scores.completeness);
  json["pruned"] = {{"features", found.pruned.features},
                    {"errors", found.pruned.errors},
                    {"edges", found.pruned.edges.ne(0).sum().item<std::int64_t>()}};
  json["logits"] = Json::array();
  for (const GraphNode& node : found.pruned.nodes) {
    if (node.kind == GraphNodeKind::logit) json["logits"].push_back(node_json(model, node));
  }
  json["paths"] = Json::array();
  for (const auto& [path, heads] : found.paths) {
    auto nodes = Json::array(), carried = Json::array();
    for (const std::int64_t node : path.nodes)
      nodes.push_back(node_json(model, found.pruned.nodes[static_cast<std::size_t>(node)]));
    for (const auto& of_edge : heads) {
      auto list = Json::array();
      for (const auto& [layer, head, share] : of_edge)
        list.push_back({{"layer", layer}, {"head", head}, {"share", number_json(share)}});
      carried.push_back(std::move(list));
    }
    json["paths"].push_back({{"influence", number_json(path.influence)},
                             {"nodes", std::move(nodes)},
                             {"heads", std::move(carried)}});
  }
  json["notes"] = found.whole.notes;
  return json;
}

}  // namespace

GraphFeatures graph_features(const std::vector<GivenDictionary>& dictionaries) {
  if (dictionaries.empty()) return GraphFeatures::neurons();
  std::vector<Dictionary> transcoders;
  for (const auto& [members, place] : dictionaries) {
    for (const Dictionary& member : members) {
      DictionaryConfig config = member.config();
      if (place.input) config.input = place.input->to_string();
      transcoders.emplace_back(std::move(config), member.weights());
    }
  }
  return transcoders;
}

void perform(const GraphOptions& options) {
  const auto reads =
      CommandReads(options.model).add_path(options.input.text_file).add_path(options.input.tokens_file);
  require_can_write(options.out, require_can_save_graph, reads, options.force);
  const auto dictionaries = read_dictionaries(options.model);
  const auto model = load_model_for(dictionaries, options.model);
  const auto given = read_input(options.input, model);
  const GraphFeatures features = graph_features(dictionaries);
  const InterruptGuard guard;
  print_notes(answer_notes({&options.answers}, model, given.input, Position::last(), {}));
  WatchedWork work("attribution graph");
  AttributionGraphOptions how{.desired_probability = options.probability,
                              .max_logits = options.max_logits,
                              .logit_tokens = ids_of_choice(options.answers, model),
                              .max_features = options.max_features,
                              .batch = options.batch,
                              .memory = static_cast<std::uint64_t>(options.memory * (std::uint64_t{1} << 30)),
                              .excluded_positions = options.skip_first,
                              .watch = work.progress()};
  FoundGraph found{
      .whole = attribute_graph(model, features, given.input, how), .pruned = {}, .scores = {}, .paths = {}};
  work.end();
  found.scores = graph_scores(found.whole);
  found.pruned = pruned(found.whole, {.node_share = options.node_share, .edge_share = options.edge_share});
  found.paths = shown_paths(model, features, given.input, found.pruned, options.paths);
  if (options.json) {
    Json json = found_json(model, found);
    json["complete"] = work.complete();
    add_tokens(given, json);
    print_json(json);
  } else {
    print_found(model, found, options);
    if (!work.complete()) print_ended_early(work.done(), work.total(), "steps");
  }
  print_notes(found.whole.notes);
  std::fflush(stdout);
  if (options.out.empty()) return;
  save_graph(found.pruned, options.out,
             {.scan = options.scan,
              .transcoders = options.model.dictionaries,
              .node_share = options.node_share,
              .edge_share = options.edge_share},
             overwrite_of(options.force));
}

}  // namespace hooked::cli
