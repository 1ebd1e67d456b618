// hooked names: every activation point of a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/actions.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/selection.h"
#include "hooked/hooks/site.h"
#include "hooked/loading/describe.h"

namespace hooked::cli {
namespace {

// The size for batch 1 and --tokens-length; nothing if it depends on the input.
std::optional<std::int64_t> size_for(Axis axis, const ModelConfig& config, std::int64_t layer,
                                     const NamesOptions& options) {
  if (const auto size = size_of(axis, config, layer); size >= 0) return size;
  if (axis == Axis::batch) return 1;
  return axis == Axis::routed ? std::nullopt : options.tokens_length;
}

}  // namespace

void perform(const NamesOptions& options) {
  const auto config = read_model_config(options.model);
  const PointIndex points(config);
  const auto selection = options.names.empty() ? Selection(act::everything) : Selection(options.names);

  auto list = Json::array();
  Table table({{"name"}, {"axes"}, {"shape"}, {"wide"}});
  for (const auto point : selection.resolve(points, Reach::everything(points))) {
    const auto& name = points.name(point);
    const auto& site = row(name.site);
    std::vector<std::string> axes;
    std::vector<std::string> shape;
    auto sizes = Json::array();
    for (std::size_t dim = 0; dim < site.axes.size(); ++dim) {
      axes.emplace_back(axis_name(site.axes[dim]));
      const auto size = size_for(site.axes[dim], config, name.layer, options);
      sizes.push_back(size ? Json(*size) : Json(nullptr));
      shape.push_back(size ? std::to_string(*size) : axes.back());
    }
    table.add({name.to_string(), fmt::format("[{}]", fmt::join(axes, ", ")),
               fmt::format("[{}]", fmt::join(shape, ", ")), site.wide ? "wide" : ""});
    list.push_back({{"name", name.to_string()}, {"axes", axes}, {"shape", sizes}, {"wide", site.wide}});
  }
  if (options.json) return print_json(list);
  table.print();
}

}  // namespace hooked::cli
