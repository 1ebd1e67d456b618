#include "hooked/analysis/circuit.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "analysis/gradients/kept_parts.h"
#include "analysis/gradients/nodes_at.h"
#include "analysis/runs/source_reader.h"
#include "analysis/values/row_major.h"
#include "core/config_reader.h"
#include "core/json.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooks/stream.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

constexpr const char* kCircuitFormat = "hooked circuit 1";
constexpr std::uint64_t kMostCircuitBytes = std::uint64_t{1} << 28;

std::int64_t number_in(const std::vector<std::string>& names, const std::string& name, const char* what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  throw HookError(name, fmt::format("the model has no {} of this name{}", what,
                                    nearest_text("; the nearest is '{}'", name, names)));
}

std::vector<std::string> names_of(const std::vector<ModelPart>& parts) {
  std::vector<std::string> names;
  for (const ModelPart& part : parts) names.push_back(part.name);
  return names;
}

/// The document of a file, which says that it is a circuit.
ConfigReader reader_of(const std::filesystem::path& file) {
  const std::string where = file.string();
  Json document;
  try {
    document = parse_json(read_text_file(file, kMostCircuitBytes), {.bytes = kMostCircuitBytes, .depth = 8});
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(where, fmt::format("{}; expected a file of a saved circuit", error.what()));
  }
  if (!document.is_object())
    throw CheckpointError(where, "this is not an object; expected a file of a saved circuit");
  ConfigReader reader(std::move(document), where, make_error<CheckpointError>);
  const std::string format = reader.text("format");
  if (format != kCircuitFormat)
    throw CheckpointError(reader.where("format"),
                          fmt::format("got '{}'; expected '{}'", format, kCircuitFormat));
  return reader;
}

bool is_own_circuit(const std::filesystem::path& file) {
  reader_of(file);
  return true;
}

/// EdgeNumbers as numbers of writers and readers.
using EdgeNumbers = std::set<std::pair<std::int64_t, std::int64_t>>;

/// Those on a path from an embedding to the logits.
EdgeNumbers on_paths(const EdgeSpace& space, EdgeNumbers edges) {
  for (bool changed = true; changed;) {
    std::set<std::int64_t> fed, used;  // writers that read something, writers that are read
    for (const auto& [writer, reader] : edges) {
      used.insert(writer);
      for (const std::int64_t owner : space.owners(reader)) fed.insert(owner);
    }
    const auto is_lost = [&](const std::pair<std::int64_t, std::int64_t>& edge) {
      if (!space.is_embedding(edge.first) && !fed.contains(edge.first)) return true;
      const auto owners = space.owners(edge.second);
      return !owners.empty() && std::none_of(owners.begin(), owners.end(),
                                             [&](std::int64_t owner) { return used.contains(owner); });
    };
    changed = std::erase_if(edges, is_lost) > 0;
  }
  return edges;
}

std::vector<CircuitEdge> named(const EdgeSpace& space, const EdgeNumbers& edges) {
  std::vector<CircuitEdge> all;
  for (const auto& [writer, reader] : edges)
    all.push_back({space.writers()[static_cast<std::size_t>(writer)],
                   space.readers()[static_cast<std::size_t>(reader)]});
  return all;
}

double strength(double score, const CircuitChoice& choice) {
  return choice.by_size ? std::abs(score) : score;
}

void require(const CircuitChoice& choice) {
  constexpr const char* kChoice = "circuit choice";
  if (choice.count.has_value() == choice.threshold.has_value())
    throw HookError(kChoice, "either `count` or `threshold` says how many; expected one of the two");
  if (choice.count && *choice.count < 0)
    throw HookError(kChoice, fmt::format("count is {}; expected 0 or more", *choice.count));
  if (choice.threshold && !std::isfinite(*choice.threshold))
    throw HookError(kChoice, "the threshold is not finite; expected a finite number");
  if (choice.greedy && !choice.count)
    throw HookError(kChoice, "greedy search needs an end; expected `count`");
}

/// The places of the scores in descending order, as many as are chosen.
std::vector<std::int64_t> chosen_places(const at::Tensor& scores, const CircuitChoice& choice) {
  const at::Tensor flat = scores.contiguous();
  const auto* numbers = flat.const_data_ptr<double>();
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double size = strength(numbers[i], choice);
    if (!std::isnan(size) && (!choice.threshold || size >= *choice.threshold) && (choice.by_size || size > 0))
      places.push_back(i);
  }
  std::stable_sort(places.begin(), places.end(), [&](auto a, auto b) {
    return strength(numbers[a], choice) > strength(numbers[b], choice);
  });
  if (choice.count) places.resize(std::min(places.size(), static_cast<std::size_t>(*choice.count)));
  return places;
}

/// Starting at the logits, the largest edge that leads into what is chosen.
EdgeNumbers greedy_edges(const EdgeSpace& space, const at::Tensor& scores, const CircuitChoice& choice) {
  const auto readers = static_cast<std::int64_t>(space.readers().size());
  CircuitChoice all = choice;
  all.count = scores.numel();
  std::vector<std::int64_t> left = chosen_places(scores, all);
  EdgeNumbers chosen;
  std::set<std::int64_t> used;  // writers of chosen edges
  const auto leads_in = [&](std::int64_t place) {
    const auto owners = space.owners(place % readers);
    return owners.empty() ||
           std::any_of(owners.begin(), owners.end(), [&](auto owner) { return used.contains(owner); });
  };
  while (static_cast<std::int64_t>(chosen.size()) < *choice.count) {
    const auto next = std::find_if(left.begin(), left.end(), leads_in);
    if (next == left.end()) break;
    chosen.emplace(*next / readers, *next % readers);
    used.insert(*next / readers);
    left.erase(next);
  }
  return chosen;
}

/// Without the axis of rows, and without one that has a single position.
Grid one_number_each(Grid scores) {
  for (const GridAxis& axis : std::vector(scores.axes())) {
    if (axis.name == "row") scores = scores.mean("row");
    if (axis.name == "pos" && axis.labels.size() == 1) scores = scores.slice("pos", 0);
  }
  return scores;
}

[[noreturn]] void refuse_axes(const Grid& scores) {
  std::vector<std::string> names;
  for (const GridAxis& axis : scores.axes()) names.push_back(axis.name);
  throw ShapeError(scores.title(),
                   fmt::format("a circuit is chosen by a number for each node or edge; expected the axis "
                               "node, layer and head, or writer and reader, got [{}]",
                               fmt::join(names, ", ")));
}

/// The nodes that a cell is about.
std::vector<std::string> nodes_of(const HookedTransformer& model, const Grid& scores, const GridCell& cell) {
  if (cell.place) return nodes_at(model, *cell.place);
  const auto& axes = scores.axes();
  if (axes.size() == 1 && axes[0].name == "node") return {cell.labels[0]};
  const bool heads = axes.size() == 2 && axes[0].name == "layer" && axes[1].name == "head";
  return heads ? std::vector{fmt::format("head {}.{}", cell.labels[0], cell.labels[1])}
               : std::vector<std::string>();
}

Circuit largest_nodes(const HookedTransformer& model, const Grid& scores, const CircuitChoice& choice) {
  if (choice.greedy)
    throw HookError("circuit choice", "greedy search follows edges; expected scores of edges");
  at::Tensor numbers = scores.values().clone();
  std::vector<std::vector<std::string>> nodes;
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    nodes.push_back(nodes_of(model, scores, scores.cell(index_of(i, scores.axes()))));
    if (nodes.back().empty()) numbers.view(-1)[i].fill_(std::numeric_limits<double>::quiet_NaN());
  }
  if (std::ranges::all_of(nodes, &std::vector<std::string>::empty)) refuse_axes(scores);
  std::vector<std::string> chosen;
  for (const std::int64_t place : chosen_places(numbers, choice)) {
    const auto& own = nodes[static_cast<std::size_t>(place)];
    chosen.insert(chosen.end(), own.begin(), own.end());
  }
  return Circuit::of_nodes(model, chosen);
}

}  // namespace

Circuit Circuit::of_nodes(const HookedTransformer& model, const std::vector<std::string>& nodes) {
  const std::vector<std::string> names = names_of(model_parts(model));
  std::set<std::int64_t> numbers;
  for (const std::string& node : nodes) numbers.insert(number_in(names, node, "head or MLP"));
  Circuit circuit;
  for (const std::int64_t number : numbers) circuit.nodes_.push_back(names[static_cast<std::size_t>(number)]);
  return circuit;
}

Circuit Circuit::of_cells(const HookedTransformer& model, const std::vector<GridCell>& cells) {
  std::vector<std::string> nodes;
  for (const GridCell& cell : cells) {
    const auto own = cell.place ? nodes_at(model, *cell.place) : std::vector<std::string>();
    if (own.empty()) {
      throw HookError(fmt::format("{}", fmt::join(cell.labels, ", ")),
                      "this cell is not about a node; expected one whose place is an activation of a head or "
                      "of an MLP; for others give the names (of_nodes)");
    }
    nodes.insert(nodes.end(), own.begin(), own.end());
  }
  return of_nodes(model, nodes);
}

std::vector<Address> Circuit::places(const HookedTransformer& model) const {
  const std::vector<ModelPart> parts = model_parts(model);
  const std::vector<std::string> names = names_of(parts);
  std::vector<Address> places;
  for (const std::string& node : nodes_)
    places.push_back(parts[static_cast<std::size_t>(number_in(names, node, "head or MLP"))].place);
  return places;
}

Circuit Circuit::of_edges(const HookedTransformer& model, const std::vector<CircuitEdge>& edges) {
  const EdgeSpace space(model);
  EdgeNumbers numbers;
  for (const CircuitEdge& edge : edges) {
    const std::int64_t writer = number_in(space.writers(), edge.writer, "writer");
    const std::int64_t reader = number_in(space.readers(), edge.reader, "reader");
    if (!space.is_behind(reader, writer)) {
      throw HookError(fmt::format("{} -> {}", edge.writer, edge.reader),
                      "the reader comes before the writer; expected one after it");
    }
    numbers.emplace(writer, reader);
  }
  Circuit circuit;
  circuit.kind_ = CircuitKind::edges;
  circuit.edges_ = named(space, numbers);
  std::set<std::int64_t> on_edges;
  for (const auto& [writer, reader] : numbers) {
    if (!space.is_embedding(writer)) on_edges.insert(writer);
    for (const std::int64_t owner : space.owners(reader)) on_edges.insert(owner);
  }
  for (const std::int64_t number : on_edges)
    circuit.nodes_.push_back(space.writers()[static_cast<std::size_t>(number)]);
  return circuit;
}

std::int64_t Circuit::size() const noexcept {
  return static_cast<std::int64_t>(kind_ == CircuitKind::nodes ? nodes_.size() : edges_.size());
}

Circuit Circuit::pruned(const HookedTransformer& model) const {
  if (kind_ == CircuitKind::nodes) return of_nodes(model, nodes_);
  const EdgeSpace space(model);
  EdgeNumbers numbers;
  for (const CircuitEdge& edge : edges_)
    numbers.emplace(number_in(space.writers(), edge.writer, "writer"),
                    number_in(space.readers(), edge.reader, "reader"));
  return of_edges(model, named(space, on_paths(space, std::move(numbers))));
}

void Circuit::require_can_save(const std::filesystem::path& file, Overwrite overwrite) {
  require_replaceable(file, {.name = "a circuit", .endings = {".json"}, .is_ours = is_own_circuit},
                      overwrite);
}

void Circuit::save(const std::filesystem::path& file, Overwrite overwrite) const {
  require_can_save(file, overwrite);
  Json json{{"format", kCircuitFormat}, {"kind", kind_ == CircuitKind::nodes ? "nodes" : "edges"}};
  if (kind_ == CircuitKind::nodes) {
    json["nodes"] = nodes_;
  } else {
    json["edges"] = Json::array();
    for (const CircuitEdge& edge : edges_) json["edges"].push_back(Json{edge.writer, edge.reader});
  }
  write_file(file, json_text(json) + '\n');
}

Circuit Circuit::load(const HookedTransformer& model, const std::filesystem::path& file) {
  const std::string where = file.string();
  const ConfigReader reader = reader_of(file);
  constexpr Named<CircuitKind> kKinds[] = {{"nodes", CircuitKind::nodes}, {"edges", CircuitKind::edges}};
  const CircuitKind kind = reader.one_of("kind", kKinds);
  std::vector<std::string> nodes;
  std::vector<CircuitEdge> edges;
  if (kind == CircuitKind::nodes) {
    nodes = reader.texts("nodes");
  } else {
    const ConfigReader list = reader.array("edges");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string key = std::to_string(i);
      const std::vector<std::string> ends = list.texts(key);
      if (ends.size() != 2)
        throw CheckpointError(list.where(key),
                              fmt::format("an edge has two ends; expected 2 names, got {}", ends.size()));
      edges.push_back({ends[0], ends[1]});
    }
  }
  reader.refuse_unread();
  try {
    return kind == CircuitKind::nodes ? of_nodes(model, nodes) : of_edges(model, edges);
  } catch (const HookError& error) {
    throw CheckpointError(where, fmt::format("this is a circuit of another model: {}", error.what()));
  }
}

Circuit choose_circuit(const HookedTransformer& model, const Grid& given, const CircuitChoice& choice) {
  require(choice);
  const Grid scores = one_number_each(given);
  const auto& axes = scores.axes();
  if (axes.size() != 2 || axes[0].name != "writer" || axes[1].name != "reader")
    return largest_nodes(model, scores, choice);
  const EdgeSpace space(model);
  if (axes[0].labels != space.writers() || axes[1].labels != space.readers())
    throw ShapeError(scores.title(),
                     "these are edges of another model; expected those of edge_attribution of this one");
  const auto readers = static_cast<std::int64_t>(space.readers().size());
  EdgeNumbers edges;
  if (choice.greedy) {
    edges = greedy_edges(space, scores.values(), choice);
  } else {
    for (const std::int64_t place : chosen_places(scores.values(), choice))
      edges.emplace(place / readers, place % readers);
  }
  return Circuit::of_edges(model, named(space, on_paths(space, std::move(edges))));
}

AttributionPatchingReport node_attribution_report(const HookedTransformer& model,
                                                  const AttributionPatchingOptions& options) {
  if (options.sweep.site || !options.sweep.table.empty())
    throw HookError("node_attribution", "every head and MLP is a node; expected neither `site` nor `table`");
  AttributionPatchingOptions all = options;
  GridAxis axis{.name = "node", .labels = {}};
  for (const ModelPart& part : model_parts(model)) {
    all.sweep.table.push_back({part.place});
    axis.labels.push_back(part.name);
    axis.places.emplace_back(part.place);
  }
  AttributionPatchingReport report = attribution_patching_report(model, all);
  std::vector<GridAxis> axes = report.grid.axes();
  const auto node =
      std::find_if(axes.begin(), axes.end(), [](const GridAxis& own) { return own.name == "place"; });
  const auto number = static_cast<std::size_t>(node - axes.begin());
  *node = axis;
  report.grid =
      Grid(report.grid.values(), std::move(axes),
           {.title = titled("Attribution of nodes", options.sweep.from), .unit = report.grid.unit()});
  if (!report.check) return report;
  for (auto* cells : {&report.check->cells, &report.check->missed}) {
    for (CheckedCell& cell : *cells)
      cell.labels[number] = axis.labels[static_cast<std::size_t>(cell.index[number])];
  }
  return report;
}

Grid node_attribution(const HookedTransformer& model, const AttributionPatchingOptions& options) {
  return node_attribution_report(model, options).grid;
}

}  // namespace hooked
