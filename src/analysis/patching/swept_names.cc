#include "analysis/patching/swept_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string_view>

#include "engine/standing_dictionaries.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"

namespace hooked {

std::vector<ActivationName> swept_names(const HookedTransformer& model, const SweptSite& swept, Stack stack) {
  const SiteRow& site = row(swept.site);
  const bool inside = site.scope == SiteScope::dictionary;
  if (site.scope != SiteScope::block && !inside) {
    throw HookError("sweep",
                    fmt::format("{} is outside the blocks; expected a site that every layer has", site.word));
  }
  const PointIndex& points = model.points();
  std::vector<ActivationName> names;
  std::set<std::string_view> hosts;
  for (const ActivationName& name : points.names()) {
    const bool there = !swept.host || name.host == swept.host;
    if (name.site != swept.site || name.stack != stack || !there) continue;
    names.push_back(name);
    if (inside) hosts.insert(row(*name.host).word);
  }
  if (!inside) {
    const bool usual = stack == site.stack.value_or(points.stacks().main());
    if (names.empty()) {
      points.require(ActivationName{.site = swept.site, .stack = usual ? Stack::none : stack, .layer = 0});
    }
    return names;
  }
  if (names.empty()) {
    throw HookError(
        "sweep",
        fmt::format(
            "{} is inside dictionaries, and none stands {} in these blocks; expected a model with one "
            "there (with_dictionary, --dictionary)",
            site.word, swept.host ? fmt::format("at {}", row(*swept.host).word) : "anywhere"));
  }
  if (hosts.size() > 1) {
    throw HookError("sweep", fmt::format("dictionaries stand at {}; expected {} of those at one of them",
                                         fmt::join(hosts, " and "), site.word));
  }
  return names;
}

std::int64_t size_on(const HookedTransformer& model, const ActivationName& name, Axis axis) {
  for (const MountedDictionary& each : mounted_in(model)) {
    if (name.host && each.writes == name.place()) return each.size_of(axis).value_or(0);
  }
  return size_of(axis, model.config(), name.layer);
}

}  // namespace hooked
