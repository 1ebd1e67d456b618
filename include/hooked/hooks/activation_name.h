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

/// The name of one activation: a site, and for sites inside blocks a stack, a layer and (in mixtures) an
/// expert.
///
/// A name inside blocks without a stack means the stack that predicts: `decoder` in an encoder-decoder and
/// `blocks` in all other models. A negative layer counts from the last one. Both are resolved where a model
/// is known. `to_string` and `parse` are inverse on every full name: `blocks.5.attn.hook_pattern`.
struct ActivationName {
  Site site = Site::embed;    ///< the kind of point
  Stack stack = Stack::none;  ///< none outside blocks, and for the stack that predicts
  std::int32_t layer = -1;    ///< of sites inside blocks
  std::int32_t expert = -1;   ///< of sites that each expert of a mixture has

  auto operator<=>(const ActivationName&) const = default;

  /// The full name: the path in the module graph and the key in a cache. Without a stack it is written as
  /// models with one stack have it.
  std::string to_string() const;

  /// Strict: full names only, decimal layers without sign, blanks or leading zeros. Throws HookError naming
  /// the text and the nearest pattern of the table.
  static ActivationName parse(std::string_view text);

  /// As `parse`, without the error.
  static std::optional<ActivationName> try_parse(std::string_view text);
};

/// The field's shorthand, a door of its own: `("pattern", 5)`, `("k", 6, "a")`, `("scale", 4, "ln1")`,
/// `("embed")`, `("normalized")` for the final norm, and the joined forms `k6a`, `pattern5`, `scale4ln1`,
/// `resid_pre5`.
/// They mean the stack that predicts, and a negative layer counts from the end. Throws HookError when it
/// names no site.
ActivationName from_shorthand(std::string_view name, std::optional<std::int32_t> layer = std::nullopt,
                              std::string_view layer_type = {});

/// In an encoder-decoder: whether that axis of an activation counts the tokens that the encoder reads, and
/// not the decoder's.
bool counts_source(const ActivationName& name, Axis axis) noexcept;

/// The stacks of one model: what the stack and the layer of a name are resolved with.
struct Stacks {
  std::int64_t n_layers = 0;          ///< blocks of the stack that predicts
  std::int64_t n_encoder_layers = 0;  ///< 0: there is no encoder

  /// The stack that predicts.
  Stack main() const { return n_encoder_layers > 0 ? Stack::decoder : Stack::blocks; }
  /// Blocks of that stack; those of the stack that predicts for any other than the encoder.
  std::int64_t layers_of(Stack stack) const { return stack == Stack::encoder ? n_encoder_layers : n_layers; }
  /// `name` with its stack, and with a negative layer counted from the end.
  ActivationName resolve(const ActivationName& name) const;
  /// As `resolve`. Throws HookError where the stack has layers and this one is not among them.
  ActivationName resolve_in_range(const ActivationName& name) const;
};

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
