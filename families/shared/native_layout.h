#pragma once

#include <string_view>

namespace hooked {

/// What TransformerLens registers beside its parameters; the position table of its ALiBi models is never
/// read.
inline constexpr std::string_view kNativeBuffers[] = {
    "*.attn.mask", "*.attn.IGNORE", "*.attn.rotary_sin", "*.attn.rotary_cos", "*.attn.alibi", "*.hook_*"};

}  // namespace hooked
