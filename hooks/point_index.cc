#include "hooked/hooks/point_index.h"

#include <fmt/format.h>

#include "core/nearest.h"
#include "hooked/core/error.h"

namespace hooked {

PointIndex::PointIndex(const ModelConfig& config)
    : names_(activation_names(config)), stacks_{config.n_layers, config.n_encoder_layers()} {
  for (std::size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], i);
}

PointIndex PointIndex::with(const std::vector<ActivationName>& inside) const {
  PointIndex more = *this;
  for (const ActivationName& name : inside) {
    more.numbers_.emplace(name, more.names_.size());
    more.names_.push_back(name);
  }
  return more;
}

// A stack without any layer is one that this model does not have: `require` reports which it has.
ActivationName PointIndex::resolve(const ActivationName& name) const {
  return stacks_.resolve_in_range(name);
}

std::optional<std::size_t> PointIndex::find(const ActivationName& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t PointIndex::require(const ActivationName& name) const {
  const ActivationName resolved = resolve(name);
  if (const auto found = find(resolved)) return *found;
  const std::string text = resolved.to_string();
  const bool in_block = name.scope() == SiteScope::block;
  const bool there = resolved.stack == Stack::encoder && stacks_.n_encoder_layers > 0;
  const bool other_stack = in_block && resolved.stack != stacks_.main() && !there;
  ActivationName predicting = resolved;
  if (other_stack) predicting.stack = stacks_.main();
  std::vector<std::string> texts;
  for (const ActivationName& known : names_) texts.push_back(known.to_string());
  throw HookError(
      text, fmt::format("this model does not have this activation; it exists when {}{}",
                        other_stack ? fmt::format("the model has a stack '{}'", stack_name(resolved.stack))
                                    : when_there(row(name.site).part),
                        nearest_text(kDidYouMean, predicting.to_string(), texts)));
}

bool Reach::contains(const ActivationName& name) const {
  switch (name.scope()) {
    case SiteScope::entry:
      return entry;
    case SiteScope::block:
      if (name.stack == Stack::encoder) return name.layer < encoder_blocks;
      // What is computed from the encoder's output is computed where the encoder runs.
      if (!encoder_exit && row(name.site).axes.find(Axis::source)) return false;
      return name.layer >= first_block && name.layer < end_block;
    case SiteScope::encoder_exit:
      return encoder_exit;
    case SiteScope::exit:
      return exit;
    case SiteScope::dictionary:  // a name's scope is that of the dictionary's place
      break;
  }
  return false;
}

}  // namespace hooked
