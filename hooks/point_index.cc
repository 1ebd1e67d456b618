#include "hooked/hooks/point_index.h"

#include <fmt/format.h>

#include "hooked/core/error.h"
#include "hooked/core/nearest.h"

namespace hooked {

PointIndex::PointIndex(const ModelConfig& config)
    : names_(activation_names(config)), n_layers_(config.n_layers) {
  for (std::size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], i);
}

ActivationName PointIndex::resolve(const ActivationName& name) const {
  if (row(name.site).scope != SiteScope::block) return name;
  ActivationName resolved = name;
  if (resolved.layer < 0) resolved.layer += static_cast<std::int32_t>(n_layers_);
  if (resolved.layer < 0 || resolved.layer >= n_layers_) {
    throw HookError(name.to_string(),
                    fmt::format("layer {} is out of range; expected {} to {} (this model has {} "
                                "layers)",
                                name.layer, -n_layers_, n_layers_ - 1, n_layers_));
  }
  return resolved;
}

std::size_t PointIndex::require(const ActivationName& name) const {
  const ActivationName resolved = resolve(name);
  if (const auto found = numbers_.find(resolved); found != numbers_.end()) return found->second;
  const std::string text = resolved.to_string();
  throw HookError(text,
                  fmt::format("this model does not have this activation; it exists when {}; the nearest one "
                              "here is '{}'",
                              row(name.site).when, nearest_to(text)));
}

std::string PointIndex::nearest_to(std::string_view text) const {
  std::vector<std::string> texts;
  for (const ActivationName& name : names_) texts.push_back(name.to_string());
  return nearest(text, texts);
}

bool Reach::contains(const ActivationName& name) const {
  switch (row(name.site).scope) {
    case SiteScope::entry:
      return entry;
    case SiteScope::block:
      return name.layer >= first_layer && name.layer < end_layer;
    case SiteScope::exit:
      return exit;
  }
  return false;
}

}  // namespace hooked
