// What is saved of a grid of scores, and above all how it is drawn.
#include "cli/picture.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "cli/output.h"
#include "core/parse_integer.h"

namespace hooked::cli {
namespace {

bool has_numbers(const Grid& grid) { return !grid.values().isnan().all().item<bool>(); }

// The last part of a path, or the name of a model in the hub cache.
std::string short_name(const std::string& given) {
  std::error_code ignored;
  if (!std::filesystem::exists(given, ignored)) return given;
  const auto path = std::filesystem::absolute(given, ignored).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

// The same grid, with what it is of in its title and its unit.
Grid captioned(const Grid& grid, const ScoredPairOptions& options, const PatchPrompts& prompts) {
  return Grid(grid.values(), grid.axes(),
              {.title = fmt::format("{}: {}", short_name(options.model.model), grid.title()),
               .unit = fmt::format("{} · {}", grid.unit(), prompts.text())});
}

// Keys after the query, if none of them changes a score: a causal model never attends to them. Undefined if
// the grid has no such cells.
at::Tensor unseen_keys(const SweepNumbers& sweep, const std::vector<GridAxis>& axes) {
  const auto axis = [&](std::size_t from_end) { return axes.at(axes.size() - from_end); };
  if (axes.size() < 2 || axis(2).name != "query" || axis(1).name != "key" || axis(1).labels != axis(2).labels)
    return {};
  const at::Tensor unchanged = sweep.unchanged();
  const at::Tensor later = at::ones(unchanged.sizes(), at::kBool).triu(1);
  const bool causal = unchanged.logical_or(later.logical_not()).all().item<bool>();
  return causal && !unchanged.all().item<bool>() ? later : at::Tensor();
}

/// Where a node is in a table of layers.
struct NodePlace {
  std::string layer;    ///< `3`, `encoder 3`
  std::string kind;     ///< `head`, `cross head`, `mlp`
  std::int64_t number;  ///< of a head; -1: none
};

// Of a name such as `head 0.1`, `encoder mlp 3`.
std::optional<NodePlace> place_of_node(const std::string& node) {
  constexpr std::string_view kEncoder = "encoder ";
  const auto blank = node.rfind(' ');
  if (blank == std::string::npos) return std::nullopt;
  const std::string where = node.substr(blank + 1);
  const auto dot = where.find('.');
  const auto number =
      dot == std::string::npos ? std::optional<std::int64_t>(-1) : parse_integer(where.substr(dot + 1));
  if (!number || !parse_integer(where.substr(0, dot))) return std::nullopt;
  const bool encoder = node.starts_with(kEncoder);
  const std::size_t begin = encoder ? kEncoder.size() : 0;
  return NodePlace{.layer = (encoder ? std::string(kEncoder) : "") + where.substr(0, dot),
                   .kind = node.substr(begin, blank - begin),
                   .number = *number};
}

// Scores [node] as [layer, head], with MLPs in a last column; unchanged if a node has another kind of name.
Grid by_layer(const Grid& nodes) {
  if (nodes.axes().size() != 1) return nodes;
  const std::vector<std::string>& names = nodes.axes()[0].labels;
  std::vector<NodePlace> places;
  for (const std::string& name : names) {
    const auto place = place_of_node(name);
    if (!place) return nodes;
    places.push_back(*place);
  }
  GridAxis layers{.name = "layer", .labels = {}}, heads{.name = "head", .labels = {}};
  // MLPs come last, heads in the order of their numbers.
  std::map<std::tuple<bool, std::string, std::int64_t>, std::int64_t> columns;
  for (const NodePlace& place : places) {
    if (std::ranges::find(layers.labels, place.layer) == layers.labels.end())
      layers.labels.push_back(place.layer);
    columns[{place.kind == "mlp", place.kind, place.number}] = 0;
  }
  for (auto& [column, number] : columns) {
    const auto& [mlp, kind, head] = column;
    number = std::ssize(heads.labels);
    heads.labels.push_back(head < 0         ? kind
                           : kind == "head" ? std::to_string(head)
                                            : fmt::format("{} {}", kind, head));
  }
  const at::Tensor values = at::full({std::ssize(layers.labels), std::ssize(heads.labels)},
                                     std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto layer = std::ranges::find(layers.labels, places[i].layer) - layers.labels.begin();
    values[layer][columns[{places[i].kind == "mlp", places[i].kind, places[i].number}]] =
        nodes.values()[static_cast<std::int64_t>(i)];
  }
  return Grid(values, {std::move(layers), std::move(heads)}, {.title = nodes.title(), .unit = nodes.unit()});
}

}  // namespace

bool is_picture(const std::string& file) { return std::filesystem::path(file).extension() == ".svg"; }

void save_grid(const Grid& grid, const std::string& file, const GridSave& how) {
  if (!is_picture(file)) return grid.save(file, overwrite_of(how.force));
  HeatMapOptions picture = how.picture;
  if (how.whole) {
    const at::Tensor absent = grid.values().isnan();
    picture.blank = picture.blank.defined() ? absent.logical_or(picture.blank) : absent;
  }
  grid.save(file, picture, overwrite_of(how.force));
}

bool save_sweep(const SweepNumbers& sweep, const PatchOptions& options, const PatchPrompts& prompts,
                const std::string& file) {
  GridSave how{.force = options.force, .whole = sweep.lacks_only_what_is_not_there()};
  const std::vector<std::size_t> all = sweep.metrics();
  if (!is_picture(file)) {
    const Grid grid =
        sweep.of_metrics(all, options.rescaled ? PatchScale::rescaled : PatchScale::scores, options.per_pair);
    if (!has_numbers(grid) && !sweep.report().complete) return false;
    save_grid(grid, file, how);
    return true;
  }
  std::vector<std::size_t> scaled;
  std::ranges::copy_if(all, std::back_inserter(scaled), [&](std::size_t m) { return sweep.has_scale(m); });
  const bool rescaled = !options.scores && !scaled.empty();
  const std::vector<std::size_t>& shown = rescaled ? scaled : all;
  const Grid grid =
      sweep.of_metrics(shown, rescaled ? PatchScale::rescaled : PatchScale::scores, options.per_pair);
  if (!has_numbers(grid) && !sweep.report().complete) return false;
  // No colour where a patch changes nothing.
  if (rescaled) {
    how.picture.centre = options.noising ? 1.0 : 0.0;
  } else if (shown.size() == 1) {
    how.picture.centre = sweep.unpatched(shown.front());
  }
  how.picture.blank = unseen_keys(sweep, grid.axes());
  save_grid(captioned(grid, options, prompts), file, how);
  return true;
}

void save_parts(const Grid& scores, bool whole, const CircuitsOptions& options, const PatchPrompts& prompts) {
  if (!whole && !has_numbers(scores)) return;
  const bool drawn = is_picture(options.out);
  save_grid(drawn ? captioned(by_layer(scores), options, prompts) : scores, options.out,
            {.force = options.force, .whole = whole});
}

}  // namespace hooked::cli
