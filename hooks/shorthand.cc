// The field's shorthand for activation names, as `get_act_name` of the literature's tools reads it, with its
// gaps fixed: `resid_pre5`, `rot_k3` and ("q", 1, "cross_attn") either mean what they say or are refused.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/hooks/activation_name.h"
#include "hooks/meant_name.h"

namespace hooked {
namespace {

using Alias = std::pair<std::string_view, std::string_view>;

constexpr Alias kNameAliases[] = {
    {"attn", "pattern"}, {"attn_logits", "attn_scores"},
    {"key", "k"},        {"query", "q"},
    {"value", "v"},      {"mlp_pre", "pre"},
    {"mlp_mid", "mid"},  {"mlp_post", "post"},
};
constexpr Alias kTypeAliases[] = {
    {"a", "attn"}, {"attention", "attn"}, {"m", "mlp"}, {"b", ""}, {"block", ""}, {"blocks", ""},
};

template <std::size_t N>
std::string_view unalias(const Alias (&aliases)[N], std::string_view word) {
  for (const auto& [alias, meaning] : aliases) {
    if (alias == word) return meaning;
  }
  return word;
}

struct Split {
  std::string_view name;
  std::optional<std::int32_t> layer;
  std::string_view type;
};

// "ln1_scale5" -> ln1_scale, 5: a word of the table and a layer.
std::optional<Split> split_word(std::string_view text) {
  const auto end = text.find_last_not_of("0123456789") + 1;
  std::int32_t layer = 0;
  const auto [rest, code] = std::from_chars(text.data() + end, text.data() + text.size(), layer);
  if (end == text.size() || code != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  const Split split{text.substr(0, end), layer, {}};
  return site_of_shorthand(split.name, true, {}) == nullptr ? std::nullopt : std::optional(split);
}

// "k6a" -> k, 6, a; "pattern5" -> pattern, 5; "ln1" stays whole because nothing may follow an empty
// name.
std::optional<Split> split_joined(std::string_view text) {
  if (const auto word = split_word(text)) return word;
  const auto digit =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digit == text.begin() || digit == text.end()) return std::nullopt;
  const auto rest = std::find_if(digit, text.end(), [](unsigned char c) { return std::isdigit(c) == 0; });
  std::int32_t layer = 0;
  if (std::from_chars(&*digit, &*digit + (rest - digit), layer).ec != std::errc()) return std::nullopt;
  const auto at = [&](auto from, auto to) {
    return text.substr(static_cast<std::size_t>(from - text.begin()), static_cast<std::size_t>(to - from));
  };
  return Split{at(text.begin(), digit), layer, at(rest, text.end())};
}

// The site of a word with a layer type: ("scale", "ln1") is ln1_scale.
const SiteRow* find_row(std::string_view word, std::string_view type) {
  const std::string qualified = type.empty() ? std::string(word) : fmt::format("{}_{}", type, word);
  const std::string hook_path = type.empty() ? fmt::format("{{stack}}.{{layer}}.hook_{}", word)
                                             : fmt::format("{{stack}}.{{layer}}.{}.hook_{}", type, word);
  const auto within_block = [](std::string_view path) { return path.substr(path.find('.') + 1); };
  for (const SiteRow& row : site_table()) {
    if (row.scope == SiteScope::dictionary) continue;  // a word and a layer do not say where it stands
    const bool same_path = row.scope == SiteScope::block && within_block(row.path) == within_block(hook_path);
    if (same_path || row.word == qualified) return &row;
  }
  return nullptr;
}

}  // namespace

const SiteRow* site_of_shorthand(std::string_view name, bool in_block, std::string_view layer_type) {
  const std::string_view word = unalias(kNameAliases, name);
  const std::string_view type = unalias(kTypeAliases, layer_type);
  if (!in_block) {
    const bool of_final_norm = word == "scale" || word == "normalized";
    const SiteRow* found = find_row(of_final_norm ? fmt::format("ln_final_{}", word) : std::string(word), {});
    return found != nullptr && found->scope != SiteScope::block ? found : nullptr;
  }
  const SiteRow* found = find_row(word, type);
  if (found == nullptr && (type.empty() || type == "attn" || type == "mlp")) {
    // q, pattern, pre, ... belong to one module only, whichever of these types was given.
    const auto row = std::find_if(site_table().begin(), site_table().end(), [&](const SiteRow& r) {
      return r.word == word && r.scope == SiteScope::block;
    });
    if (row != site_table().end()) found = &*row;
  }
  return found != nullptr && found->scope == SiteScope::block ? found : nullptr;
}

ActivationName from_shorthand(std::string_view name, std::optional<std::int32_t> layer,
                              std::string_view layer_type) {
  const std::string_view whole = name;
  require_no_indices(whole);
  if (!layer && layer_type.empty()) {
    if (const auto full = ActivationName::try_parse(name)) return *full;
    if (const auto joined = split_joined(name)) {
      name = joined->name;
      layer = joined->layer;
      layer_type = joined->type;
    }
  }
  if (const SiteRow* found = site_of_shorthand(name, layer.has_value(), layer_type)) {
    const ActivationName plain{found->site, Stack::none, layer.value_or(-1), -1};
    if (!per_expert(*found)) return plain;
    const ActivationName of_expert{found->site, Stack::none, layer.value_or(0), 0};
    throw HookError(whole, fmt::format("this shorthand names no expert; expected a full name such as '{}'",
                                       of_expert.to_string()));
  }
  if (!layer && site_of_shorthand(name, true, layer_type) != nullptr) {
    throw HookError(
        whole,
        fmt::format(
            "every block has one, so this names no single activation; expected a layer after it, as in '{}0'",
            name));
  }
  throw HookError(whole, fmt::format("this shorthand names no activation{}{}{}",
                                     layer ? fmt::format(" of layer {}", *layer) : std::string(),
                                     layer_type.empty() ? std::string() : fmt::format(" in '{}'", layer_type),
                                     with_advice(name_meant_by(whole, layer), "see docs/activations.md")));
}

}  // namespace hooked
