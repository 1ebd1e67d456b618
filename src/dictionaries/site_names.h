#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hooked {

// Where dictionaries stand, in the words of their files. Ours are HookedTransformer's.

/// The layer of `blocks.3.hook_resid_post`; nothing for names outside blocks.
std::optional<std::int64_t> layer_of_site(std::string_view site);

/// `blocks.3.` and a name inside a block: `mlp.hook_in`.
std::string site_in_block(std::int64_t layer, std::string_view name);

/// `mlp.hook_in` of `blocks.3.mlp.hook_in`; a name outside blocks is returned as it is.
std::string name_in_block(std::string_view site);

/// The point of a module's input or output in Hugging Face's words (`model.layers.3.output`), or nothing if
/// it has no such point. What is read after a norm is with the norm's weight: `mlp.hook_in`.
std::optional<std::string> site_of_module(std::string_view module);

/// The number after `word` in a path's text: 12 of `layer_12` for `layer_`; nothing if there is none. The
/// last of several.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view word);

}  // namespace hooked
