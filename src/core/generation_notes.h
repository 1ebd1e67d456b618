#pragma once

#include <string_view>

namespace hooked {

/// In a note about a model's files: they say how tokens are picked (temperature, top_p, ...), which only the
/// options of a call decide. `hooked generate` repeats these notes.
inline constexpr std::string_view kPickedByOptions =
    ", which `generate` does only where its own options say so";

}  // namespace hooked
