#pragma once

#include <string_view>

namespace hooked {

/// What begins the keys of metadata that an ActivationCache is put together again by. A Provenance has none
/// of them.
inline constexpr std::string_view kCacheKeyPrefix = "cache.";

}  // namespace hooked
