#pragma once

#include <string_view>

namespace hooked {

/// The prefix of the metadata keys from which an ActivationCache is restored. A Provenance has none of
/// them.
inline constexpr std::string_view kCacheKeyPrefix = "cache.";

}  // namespace hooked
