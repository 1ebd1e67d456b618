#include "dictionaries/site_names.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace hooked {
namespace {

/// The number that a text begins with, without sign; it is removed.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

constexpr std::string_view kBlocks = "blocks.";
constexpr std::array<std::string_view, 3> kLayerPrefixes = {"model.layers.", "model.language_model.layers.",
                                                            "language_model.model.layers."};
/// Modules inside a layer. Gemma 3's MLP has a norm before and one after it: what the latter returns is what
/// is added to the stream.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kModules = {{
    {"output", "hook_resid_post"},
    {"", "hook_resid_post"},
    {"self_attn.o_proj.input", "attn.hook_z"},
    {"pre_feedforward_layernorm.output", "mlp.hook_in"},
    {"post_feedforward_layernorm.output", "hook_mlp_out"},
    {"mlp.input", "mlp.hook_in"},
    {"mlp.output", "hook_mlp_out"},
}};

}  // namespace

std::optional<std::int64_t> layer_of_site(std::string_view site) {
  if (!site.starts_with(kBlocks)) return std::nullopt;
  site.remove_prefix(kBlocks.size());
  const auto layer = take_number(site);
  return site.starts_with('.') ? layer : std::nullopt;
}

std::string site_in_block(std::int64_t layer, std::string_view name) {
  return fmt::format("{}{}.{}", kBlocks, layer, name);
}

std::string name_in_block(std::string_view site) {
  return std::string(layer_of_site(site) ? site.substr(site.find('.', kBlocks.size()) + 1) : site);
}

std::optional<std::string> site_of_module(std::string_view module) {
  for (const std::string_view prefix : kLayerPrefixes) {
    if (!module.starts_with(prefix)) continue;
    std::string_view rest = module.substr(prefix.size());
    const auto layer = take_number(rest);
    if (!layer) return std::nullopt;
    if (rest.starts_with('.')) rest.remove_prefix(1);
    for (const auto& [name, site] : kModules) {
      if (rest == name) return site_in_block(*layer, site);
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_after(std::string_view text, std::string_view word) {
  for (auto at = text.rfind(word); at != std::string_view::npos;
       at = at == 0 ? at : text.rfind(word, at - 1)) {
    std::string_view rest = text.substr(at + word.size());
    if (const auto number = take_number(rest)) return number;
    if (at == 0) break;
  }
  return std::nullopt;
}

}  // namespace hooked
