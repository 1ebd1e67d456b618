#include "models/graph.h"

namespace hooked {

Point add_point(torch::nn::Module& owner, Site site, const GraphContext& context) {
  const SiteRow& site_row = row(site);
  if (!site_row.exists(context.config)) return nullptr;
  ActivationName name{.site = site};
  if (site_row.scope == SiteScope::block) {
    name.stack = context.stack;
    name.layer = static_cast<std::int32_t>(context.layer);
  }
  const auto leaf = site_row.path.substr(site_row.path.rfind('.') + 1);  // npos + 1 is 0: the whole path
  return owner.register_module(std::string(leaf), std::make_shared<HookPoint>(context.points.require(name)));
}

}  // namespace hooked
