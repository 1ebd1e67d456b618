#pragma once

#include <string_view>

namespace hooked::text {

/// How Qwen's tokenizers cut a text into words, in every form of their files.
inline constexpr std::string_view kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace hooked::text
