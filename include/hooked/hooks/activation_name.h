#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/block_place.h"
#include "hooked/hooks/site.h"

namespace hooked {

/// The name of one activation: a site, and for sites inside blocks a stack, a layer and (in mixtures) an
/// expert.
///
/// `to_string` and `parse` are inverse on every valid name: `blocks.5.attn.hook_pattern`. A negative layer
/// counts from the last one; it is resolved where a model is known.
struct ActivationName {
  Site site = Site::embed;
  Stack stack = Stack::none;
  std::int32_t layer = -1;
  std::int32_t expert = -1;

  auto operator<=>(const ActivationName&) const = default;

  /// The full name: the path in the module graph and the key in a cache.
  std::string to_string() const;

  /// Strict: full names only, decimal layers without sign, blanks or leading zeros. Throws HookError naming
  /// the text and the nearest pattern of the table.
  static ActivationName parse(std::string_view text);

  /// As `parse`, without the error.
  static std::optional<ActivationName> try_parse(std::string_view text);
};

/// The field's shorthand, a door of its own: `("pattern", 5)`, `("k", 6, "a")`, `("scale", 4, "ln1")`,
/// `("embed")`,
/// `("normalized")` for the final norm, and the joined forms `k6a`, `pattern5`, `scale4ln1`, `resid_pre5`.
/// A negative layer counts from the end. Throws HookError when it names no site.
ActivationName from_shorthand(std::string_view name, std::optional<std::int32_t> layer = std::nullopt,
                              std::string_view layer_type = {});

/// In an encoder-decoder: whether that axis of an activation counts the tokens that the encoder reads, and
/// not the decoder's.
bool counts_source(const ActivationName& name, Axis axis) noexcept;

/// All names of a model, in the order of the table, block by block.
std::vector<ActivationName> activation_names(const ModelConfig& config);

}  // namespace hooked

template <>
struct std::hash<hooked::ActivationName> {
  std::size_t operator()(const hooked::ActivationName& name) const noexcept {
    return (static_cast<std::size_t>(name.site) << 48) ^ (static_cast<std::size_t>(name.stack) << 40) ^
           (static_cast<std::size_t>(static_cast<std::uint32_t>(name.expert)) << 20) ^
           static_cast<std::size_t>(static_cast<std::uint32_t>(name.layer));
  }
};
