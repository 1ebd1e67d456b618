#include "hooked/engine/prefix.h"

#include "models/kv_cache.h"

namespace hooked {

std::int64_t Prefix::batch() const noexcept { return columns_->batch(); }
std::int64_t Prefix::length() const noexcept { return columns_->length(); }

}  // namespace hooked
