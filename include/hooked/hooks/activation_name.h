#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/block_place.h"
#include "hooked/core/export.h"
#include "hooked/core/print.h"
#include "hooked/hooks/site.h"

namespace HOOKED_EXPORT hooked {

/// The name of one activation: a site; inside blocks also a stack and a layer; in mixtures also an
/// expert; inside a dictionary also the site of what that stands at
/// (`blocks.5.hook_resid_post.hook_sae_acts_post`).
///
/// Inside blocks, a name without a stack means the stack that predicts: `decoder` in an encoder-decoder,
/// `blocks` in all other models. A negative layer counts from the last one. Both are resolved once the model
/// is known. `to_string` and `parse` are inverse on every full name: `blocks.5.attn.hook_pattern`.
struct ActivationName {
  Site site = Site::embed;    ///< the kind of point
  Stack stack = Stack::none;  ///< none outside blocks, and for the stack that predicts
  std::int32_t layer = -1;    ///< of sites inside blocks
  std::int32_t expert = -1;   ///< of sites that each expert of a mixture has
  /// Inside a dictionary: the site of the activation that it stands at. Stack, layer and expert are that
  /// one's.
  std::optional<Site> host = {};

  auto operator<=>(const ActivationName&) const = default;

  /// The activation that a dictionary stands at, for a point inside it; itself for all others.
  ActivationName place() const { return {host.value_or(site), stack, layer, expert, {}}; }
  /// Where in a model's path it is: inside a dictionary, where the dictionary stands.
  SiteScope scope() const noexcept { return row(host.value_or(site)).scope; }

  /// The full name: the path in the module graph and the key in a cache. Without a stack it is spelled as in
  /// models with one stack.
  std::string to_string() const;

  /// Strict: full names only, decimal layers without a sign, blanks or leading zeros. Throws HookError with
  /// the text and the nearest pattern of the table.
  static ActivationName parse(std::string_view text);

  /// Like `parse`, but returns nothing instead of throwing.
  static std::optional<ActivationName> try_parse(std::string_view text);
};

/// Parses the field's shorthand, and nothing else: `("pattern", 5)`, `("k", 6, "a")`, `("scale", 4, "ln1")`,
/// `("embed")`, `("normalized")` for the final norm, and the joined forms `k6a`, `pattern5`, `scale4ln1`,
/// `resid_pre5`.
/// A name means the stack that predicts, and a negative layer counts from the end. Throws HookError if it
/// names no site.
ActivationName from_shorthand(std::string_view name, std::optional<std::int32_t> layer = std::nullopt,
                              std::string_view layer_type = {});

/// Whether, in an encoder-decoder, that axis of an activation counts the encoder's tokens, not the
/// decoder's.
bool counts_source(const ActivationName& name, Axis axis) noexcept;

/// The stacks of one model, which resolve the stack and the layer of a name.
struct Stacks {
  std::int64_t n_layers = 0;          ///< blocks of the stack that predicts
  std::int64_t n_encoder_layers = 0;  ///< 0 without an encoder

  /// The stack that predicts.
  Stack main() const { return n_encoder_layers > 0 ? Stack::decoder : Stack::blocks; }
  /// Blocks of the encoder for its name, else those of the stack that predicts.
  std::int64_t layers_of(Stack stack) const { return stack == Stack::encoder ? n_encoder_layers : n_layers; }
  /// `name` with its stack, and with a negative layer counted from the end.
  ActivationName resolve(const ActivationName& name) const;
  /// Like `resolve`. Throws HookError if the stack has layers but not this one.
  ActivationName resolve_in_range(const ActivationName& name) const;
};

/// All names of a model, in the order of the table, block by block.
std::vector<ActivationName> activation_names(const ModelConfig& config);

}  // namespace hooked

template <>
struct std::hash<hooked::ActivationName> {
  std::size_t operator()(const hooked::ActivationName& name) const noexcept {
    const std::size_t host = name.host ? static_cast<std::size_t>(*name.host) + 1 : 0;
    return (host << 56) ^ (static_cast<std::size_t>(name.site) << 48) ^
           (static_cast<std::size_t>(name.stack) << 40) ^
           (static_cast<std::size_t>(static_cast<std::uint32_t>(name.expert)) << 20) ^
           static_cast<std::size_t>(static_cast<std::uint32_t>(name.layer));
  }
};
