#include "hooked/hooks/activation_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/parse_integer.h"
#include "core/split.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooks/meant_name.h"

namespace hooked {
namespace {

std::optional<Stack> parse_stack(std::string_view word) {
  for (const auto stack : {Stack::blocks, Stack::encoder, Stack::decoder}) {
    if (stack_name(stack) == word) return stack;
  }
  return std::nullopt;
}

// Decimal digits without sign or leading zeros, small enough for a layer.
std::optional<std::int32_t> parse_count(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0') || text[0] == '-') return std::nullopt;
  const auto value = parse_integer(text);
  if (!value || *value > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

// A point inside a dictionary: the name of what that stands at, and the last part of a row's path.
std::optional<ActivationName> match_inside(std::string_view text) {
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  for (const SiteRow& row : site_table()) {
    if (row.scope != SiteScope::dictionary || row.path.substr(row.path.rfind('.')) != text.substr(dot))
      continue;
    auto name = ActivationName::try_parse(text.substr(0, dot));
    if (!name || name->host) return std::nullopt;
    name->host = std::exchange(name->site, row.site);
    return name;
  }
  return std::nullopt;
}

// Matches the parts of a dotted name against a row's path pattern.
std::optional<ActivationName> match(const SiteRow& row, const std::vector<std::string_view>& parts) {
  const auto pattern = split(row.path, '.');
  if (pattern.size() != parts.size()) return std::nullopt;
  ActivationName name{.site = row.site};
  if (row.scope == SiteScope::block) name.stack = row.stack.value_or(Stack::none);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (pattern[i] == "{stack}") {
      const auto stack = parse_stack(parts[i]);
      if (!stack) return std::nullopt;
      name.stack = *stack;
    } else if (pattern[i] == "{layer}" || pattern[i] == "{expert}") {
      const auto count = parse_count(parts[i]);
      if (!count) return std::nullopt;
      (pattern[i] == "{layer}" ? name.layer : name.expert) = *count;
    } else if (pattern[i] != parts[i]) {
      return std::nullopt;
    }
  }
  return name;
}

}  // namespace

std::string ActivationName::to_string() const {
  std::string text;
  for (const auto part : split(row(site).path, '.')) {
    if (!text.empty()) text += '.';
    if (part == "{host}") {
      text += host ? place().to_string() : "*";
    } else if (part == "{stack}") {
      text += stack_name(stack == Stack::none ? Stack::blocks : stack);
    } else if (part == "{layer}") {
      text += std::to_string(layer);
    } else if (part == "{expert}") {
      text += std::to_string(expert);
    } else {
      text += part;
    }
  }
  return text;
}

Address act::DictionarySite::operator()(const Address& place) const {
  if (!place.indices().empty() || place.name().host) {
    throw HookError(
        place.to_string(),
        "a dictionary stands at a whole activation of the model; expected one without indices; put "
        "indices on the point inside the dictionary");
  }
  ActivationName name = place.name();
  name.host = std::exchange(name.site, site);
  return name;
}

std::optional<ActivationName> ActivationName::try_parse(std::string_view text) {
  const auto parts = split(text, '.');
  for (const SiteRow& row : site_table()) {
    if (const auto name = match(row, parts)) return name;
  }
  return match_inside(text);
}

ActivationName ActivationName::parse(std::string_view text) {
  if (const auto name = try_parse(text)) return *name;
  require_no_indices(text);
  throw HookError(text,
                  fmt::format("this is not an activation's name; expected a full name such as "
                              "'blocks.0.attn.hook_z'{}",
                              with_advice(name_meant_by(text), "see docs/activations.md for all of them")));
}

bool counts_source(const ActivationName& name, Axis axis) noexcept {
  const Axis here = axis_on(name.site, axis).value_or(axis);
  const Stack stack =
      name.stack != Stack::none ? name.stack : row(name.host.value_or(name.site)).stack.value_or(Stack::none);
  return stack == Stack::encoder || here == Axis::source || here == Axis::source_key;
}

ActivationName Stacks::resolve(const ActivationName& name) const {
  const SiteRow& site = row(name.host.value_or(name.site));
  if (site.scope != SiteScope::block) return name;
  ActivationName resolved = name;
  if (name.stack == Stack::none) resolved.stack = site.stack.value_or(main());
  if (name.layer < 0) resolved.layer += static_cast<std::int32_t>(layers_of(resolved.stack));
  return resolved;
}

ActivationName Stacks::resolve_in_range(const ActivationName& name) const {
  const ActivationName resolved = resolve(name);
  const std::int64_t layers = layers_of(resolved.stack);
  if (name.scope() != SiteScope::block || layers == 0) return resolved;
  if (resolved.layer >= 0 && resolved.layer < layers) return resolved;
  ActivationName asked = resolved;
  asked.layer = name.layer;
  throw HookError(asked.to_string(),
                  fmt::format("layer {} is out of range; expected {} to {} (this model has {} layers)",
                              name.layer, -layers, layers - 1, layers));
}

std::vector<ActivationName> activation_names(const ModelConfig& config) {
  std::vector<ActivationName> names;
  const auto add_scope = [&](SiteScope scope, Stack stack, std::int32_t layer) {
    const auto exists = [&](const SiteRow& row) {
      return row.scope == scope && stands_in(row, stack) && row.exists(config, layer);
    };
    const auto table = site_table();
    for (auto row = table.begin(); row != table.end();) {
      if (!per_expert(*row)) {
        if (exists(*row)) names.push_back({row->site, stack, layer, -1});
        ++row;
        continue;
      }
      // Rows of this kind are adjacent in the table, and fire expert by expert.
      const auto end = std::find_if_not(row, table.end(), per_expert);
      for (std::int32_t expert = 0; expert < config.n_experts(); ++expert) {
        for (auto each = row; each != end; ++each) {
          if (exists(*each)) names.push_back({each->site, stack, layer, expert});
        }
      }
      row = end;
    }
  };
  add_scope(SiteScope::entry, Stack::none, -1);
  for (const auto& [stack, layer] : config.blocks()) {
    add_scope(SiteScope::block, stack, static_cast<std::int32_t>(layer));
    if (stack == Stack::encoder && layer + 1 == config.n_encoder_layers())
      add_scope(SiteScope::encoder_exit, Stack::none, -1);
  }
  add_scope(SiteScope::exit, Stack::none, -1);
  return names;
}

}  // namespace hooked
