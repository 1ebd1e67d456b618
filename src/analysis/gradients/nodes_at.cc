#include "analysis/gradients/nodes_at.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <variant>

#include "hooked/analysis/ablation.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

bool is_crossing(Site site) { return row(site).word.starts_with("cross_"); }

/// The head that a place is about, from 0 on; nothing: all of its activation.
std::optional<std::int64_t> head_of(const Address& place, const ActivationName& name,
                                    const ModelConfig& config) {
  std::optional<std::int64_t> head;
  for (const auto& [axis, index] : place.indices().entries()) {
    const auto own = axis_on(name.site, axis);
    const auto* number = std::get_if<std::int64_t>(&index.value);
    const bool of_heads =
        own == Axis::head || (own == Axis::kv_head && config.kv_heads(name.layer) == config.n_heads);
    if (!of_heads || number == nullptr) {
      throw HookError(place.to_string(),
                      "this is a part of a node; expected a whole head or MLP; for numbers by position take "
                      "their mean, or one position (slice)");
    }
    head = *number < 0 ? *number + config.n_heads : *number;
  }
  return head;
}

}  // namespace

std::vector<std::string> nodes_at(const HookedTransformer& model, const Address& place) {
  const PointIndex& points = model.points();
  const ActivationName name = points.name(points.require(points.resolve(place.name())));
  std::vector<std::string> nodes;
  const auto is_of_block = [&](const ModelPart& part) {
    return part.place.name().stack == name.stack && part.place.name().layer == name.layer;
  };
  const auto is_of_heads = [&](const ModelPart& part) {
    return !part.place.indices().empty() && is_crossing(part.place.name().site) == is_crossing(name.site);
  };
  const bool of_heads = axis_on(name.site, Axis::head).has_value() || name.site == Site::attn_out ||
                        name.site == Site::cross_attn_out;
  for (const ModelPart& part : model_parts(model)) {
    if (!is_of_block(part)) continue;
    if (part.place.name() == name && part.place.indices().empty()) {
      head_of(place, name, model.config());  // throws for a part of it
      nodes.push_back(part.name);
    } else if (of_heads && is_of_heads(part)) {
      const auto head = head_of(place, name, model.config());
      const AxisIndex* own = part.place.indices().find(Axis::head);
      if (!head || *own == AxisIndex(*head)) nodes.push_back(part.name);
    }
  }
  return nodes;
}

}  // namespace hooked
