// What is saved of a grid of scores, and above all how it is drawn.
#include "cli/picture.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
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

/// Where a part is in a table of layers and heads.
struct PartPlace {
  std::string row;           ///< `3`, `encoder 3`; without a layer the part's name
  std::string kind;          ///< `head`, `cross head`, `mlp`; `all` without a layer
  std::int64_t number = -1;  ///< of a head; -1: none

  /// Heads come first in the order of their numbers, then what else a layer has, then what has no layer.
  auto column() const {
    const int order = kind == "all" ? 4 : kind == "mlp" ? 3 : number < 0 ? 2 : kind == "head" ? 0 : 1;
    return std::tuple(order, kind, number);
  }
  std::string column_label() const {
    if (number < 0) return kind;
    return kind == "head" ? std::to_string(number) : fmt::format("{} {}", kind, number);
  }
};

// Of a name such as `head 0.1`, `encoder mlp 3`, `embed`.
PartPlace place_of_part(const std::string& part) {
  constexpr std::string_view kEncoder = "encoder ";
  const PartPlace no_layer{.row = part, .kind = "all"};
  const auto blank = part.rfind(' ');
  if (blank == std::string::npos) return no_layer;
  const std::string where = part.substr(blank + 1);
  const auto dot = where.find('.');
  const auto number =
      dot == std::string::npos ? std::optional<std::int64_t>(-1) : parse_integer(where.substr(dot + 1));
  if (!number || !parse_integer(where.substr(0, dot))) return no_layer;
  const bool encoder = part.starts_with(kEncoder);
  const std::size_t begin = encoder ? kEncoder.size() : 0;
  if (blank < begin) return no_layer;
  return {.row = (encoder ? std::string(kEncoder) : "") + where.substr(0, dot),
          .kind = part.substr(begin, blank - begin),
          .number = *number};
}

// The grid with its axis of parts as the last one if only axes of one place follow it; else as it is.
Grid parts_last(const Grid& grid) {
  std::vector<GridAxis> axes = grid.axes();
  const auto parts = std::ranges::find_if(
      axes, [](const GridAxis& axis) { return axis.name == "node" || axis.name == "part"; });
  if (parts == axes.end()) return grid;
  if (std::any_of(parts + 1, axes.end(), [](const GridAxis& axis) { return axis.labels.size() > 1; }))
    return grid;
  const at::Tensor values = grid.values().movedim(parts - axes.begin(), -1);
  std::rotate(parts, parts + 1, axes.end());
  return Grid(values, std::move(axes), {.title = grid.title(), .unit = grid.unit()});
}

// Numbers [..., part] as [..., layer, head]; other grids as they are.
Grid by_layer(const Grid& grid) {
  const Grid parts = parts_last(grid);
  if (parts.axes().empty() || (parts.axes().back().name != "node" && parts.axes().back().name != "part"))
    return parts;
  std::vector<PartPlace> places;
  for (const std::string& name : parts.axes().back().labels) places.push_back(place_of_part(name));
  GridAxis layers{.name = "layer", .labels = {}}, heads{.name = "head", .labels = {}};
  struct Column {
    std::string label;
    std::int64_t index = 0;
  };
  std::map<decltype(PartPlace().column()), Column> columns;  // in their order
  for (const PartPlace& place : places) {
    if (std::ranges::find(layers.labels, place.row) == layers.labels.end())
      layers.labels.push_back(place.row);
    columns[place.column()].label = place.column_label();
  }
  for (auto& entry : columns) {
    entry.second.index = std::ssize(heads.labels);
    heads.labels.push_back(entry.second.label);
  }
  std::vector<GridAxis> axes = parts.axes();
  std::vector<std::int64_t> shape = parts.values().sizes().vec();
  shape.back() = std::ssize(layers.labels);
  shape.push_back(std::ssize(heads.labels));
  const at::Tensor values = at::full(shape, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto layer = std::ranges::find(layers.labels, places[i].row) - layers.labels.begin();
    values.select(-2, layer).select(-1, columns[places[i].column()].index) =
        parts.values().select(-1, static_cast<std::int64_t>(i));
  }
  axes.back() = std::move(layers);
  axes.push_back(std::move(heads));
  return Grid(values, std::move(axes), {.title = parts.title(), .unit = parts.unit()});
}

}  // namespace

bool is_picture(const std::string& file) { return std::filesystem::path(file).extension() == ".svg"; }

void save_grid(const Grid& grid, const std::string& file, const GridSave& how) {
  if (!is_picture(file)) return grid.save(file, overwrite_of(how.force));
  const Grid shown = captioned(by_layer(grid), how.caption);
  HeatMapOptions picture = how.picture;
  if (how.whole) {
    const at::Tensor absent = shown.values().isnan();
    picture.blank = picture.blank.defined() ? absent.logical_or(picture.blank) : absent;
  }
  shown.save(file, picture, overwrite_of(how.force));
}

bool save_sweep(const SweepNumbers& sweep, const PatchOptions& options, const PatchPrompts& prompts,
                const std::string& file) {
  GridSave how{.force = options.force,
               .whole = sweep.lacks_only_what_is_not_there(),
               .caption = {options.model.model, prompts.text()}};
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
  how.picture.blank = sweep.unseen_keys();
  save_grid(grid, file, how);
  return true;
}

void save_parts(const Grid& scores, bool whole, const CircuitsOptions& options, const PatchPrompts& prompts) {
  if (!whole && !has_numbers(scores)) return;
  save_grid(scores, options.out,
            {.force = options.force, .whole = whole, .caption = {options.model.model, prompts.text()}});
}

}  // namespace hooked::cli
