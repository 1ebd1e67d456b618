#include "tests/combinations/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace hooked::combinations {
namespace {

bool inside_of_mixture(Site site) {
  return per_expert(row(site)) || site == Site::expert_weights || site == Site::expert_indices;
}

}  // namespace

std::string path_of(const ActivationName& name) {
  const std::string text = name.to_string();
  if (row(name.site).scope != SiteScope::block) return text;
  return text.substr(text.find('.', text.find('.') + 1) + 1);
}

std::vector<ActivationName> read_points(const ModelConfig& config) {
  std::vector<ActivationName> names = activation_names(config);
  std::erase_if(names, [](const ActivationName& name) {
    return row(name.site).integers || inside_of_mixture(name.site);
  });
  return names;
}

std::vector<ActivationName> changed_points(const ModelConfig& config) {
  static const std::set<Site> kUnchanged{Site::attn_in, Site::q_input,       Site::k_input,
                                         Site::v_input, Site::relative_bias, Site::linear_state};
  std::vector<ActivationName> names = read_points(config);
  std::erase_if(names, [](const ActivationName& name) { return kUnchanged.contains(name.site); });
  return names;
}

ActivationName name_in(const Where& where, std::int64_t layer) {
  if (!where.in_block) return ActivationName::parse(where.path);
  return ActivationName::parse(fmt::format("blocks.{}.{}", layer, where.path));
}

std::vector<std::int64_t> layers_of(const Where& where, const ModelConfig& config) {
  if (!where.in_block) return {0};
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    if (where.layer && *where.layer != layer && *where.layer + config.n_layers != layer) continue;
    if (row(name_in(where, layer).site).exists(config, layer)) layers.push_back(layer);
  }
  return layers;
}

std::optional<std::size_t> dimension_of(Site site, Index index) {
  const AxisList& axes = row(site).axes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string_view name = axis_name(axes[i]);
    const bool found = index == Index::row    ? name == "batch"
                       : index == Index::pos  ? name == "pos" || name == "query"
                       : index == Index::head ? name == "head" || name == "kv_head"
                                              : name == "key";
    if (found) return i;
  }
  return std::nullopt;
}

const Places* places_on(const Where& where, Site site, std::size_t dimension) {
  if (dimension_of(site, Index::row) == dimension) return &where.row;
  if (dimension_of(site, Index::pos) == dimension) return &where.pos;
  if (dimension_of(site, Index::head) == dimension) return &where.head;
  if (dimension_of(site, Index::key) == dimension) return &where.key;
  return nullptr;
}

}  // namespace hooked::combinations
