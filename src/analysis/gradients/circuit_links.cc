#include "hooked/analysis/circuit_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/parse_integer.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kCircuitLinks = "picture of a circuit";

/// Where a part stands: `head 0.1`, `mlp 0`, `embed`, `logits`; a reader's `q`, `k` or `v` does not count.
struct CircuitPart {
  std::string name;         // without the input that it reads
  std::string row;          // its label
  std::int64_t level = -1;  // orders rows: -1 what is before all layers
  std::int64_t column = 0;
};

CircuitPart place_of_part(std::string_view part) {
  for (const std::string_view input : {" q", " k", " v"}) {
    if (part.ends_with(input)) part.remove_suffix(input.size());
  }
  CircuitPart place{.name = std::string(part), .row = std::string(part)};
  if (part == "logits") {
    place.level = std::int64_t{1} << 40;
    return place;
  }
  const auto blank = part.rfind(' ');
  if (blank == std::string_view::npos) return place;
  const std::string_view where = part.substr(blank + 1);
  const auto dot = where.find('.');
  const auto layer = parse_integer(where.substr(0, dot));
  if (!layer) return place;
  const bool head = dot != std::string_view::npos;
  if (head) place.column = parse_integer(where.substr(dot + 1)).value_or(0);
  // `encoder head 0.1` and `cross head 0.1` have rows of their own.
  const std::string kind(part.substr(0, blank));
  place.row = fmt::format("{} {}", kind, *layer);
  place.level = 4 * *layer + (head ? (kind == "head" ? 0 : 1) : 2);
  if (kind.starts_with("encoder")) place.level -= std::int64_t{1} << 30;
  return place;
}

}  // namespace

NodeLinks node_links(const Circuit& circuit, const Grid& scores) {
  if (circuit.kind() != CircuitKind::edges)
    throw HookError(kCircuitLinks,
                    "this circuit consists of nodes, which have no links; expected one of edges");
  const GridAxis &writers = scores.axis("writer"), &readers = scores.axis("reader");
  const auto index = [](const GridAxis& axis, const std::string& name) {
    const auto found = std::ranges::find(axis.labels, name);
    if (found == axis.labels.end())
      throw ShapeError(kCircuitLinks, fmt::format("the scores have no {} '{}'; expected those that the "
                                                  "circuit was chosen by",
                                                  axis.name, name));
    return found - axis.labels.begin();
  };
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> rows;
  std::map<std::string, CircuitPart> places;
  std::map<std::pair<std::string, std::string>, double> weights;
  std::int64_t columns = 1;
  for (const CircuitEdge& edge : circuit.edges()) {
    const CircuitPart from = place_of_part(edge.writer), to = place_of_part(edge.reader);
    std::vector<std::int64_t> at(scores.axes().size(), 0);
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      const GridAxis& each = scores.axes()[axis];
      if (&each == &writers || &each == &readers)
        at[axis] = index(each, &each == &writers ? edge.writer : edge.reader);
      else if (each.labels.size() != 1)
        throw ShapeError(kCircuitLinks,
                         fmt::format("the scores have {} places on '{}'; expected scores [writer, reader]; "
                                     "take a mean or a slice",
                                     each.labels.size(), each.name));
    }
    weights[{from.name, to.name}] += scores.at(at);
    for (const CircuitPart& place : {from, to}) {
      places.emplace(place.name, place);
      rows[{place.level, place.row}] = 0;
      columns = std::max(columns, place.column + 1);
    }
  }
  NodeLinks figure{.title = fmt::format("Circuit of {} edges", circuit.size()),
                   .unit = scores.unit(),
                   .column_name = "head"};
  for (auto& [key, row] : rows) {
    row = std::ssize(figure.rows);
    figure.rows.push_back(key.second);
  }
  for (std::int64_t column = 0; column < columns; ++column) figure.columns.push_back(std::to_string(column));
  std::map<std::string, std::int64_t> numbers;
  for (const auto& [name, place] : places) {
    numbers[name] = std::ssize(figure.nodes);
    figure.nodes.push_back(
        {.text = name, .says = name, .row = rows.at({place.level, place.row}), .column = place.column});
  }
  for (const auto& [ends, weight] : weights)
    figure.links.push_back(
        {.source = numbers.at(ends.first), .target = numbers.at(ends.second), .weight = weight});
  return figure;
}

}  // namespace hooked
