#include "hooked/engine/prefix.h"

#include <fmt/format.h>

#include "hooked/core/error.h"
#include "models/sequence/kv_cache.h"

namespace hooked {

std::int64_t Prefix::batch() const { return columns_->batch(); }
std::int64_t Prefix::length() const { return columns_->length(); }
std::int64_t Prefix::bytes() const { return columns_->bytes(); }

Prefix Prefix::first(std::int64_t columns) const {
  // Without columns of its own it still holds what an encoder read.
  const std::int64_t least = columns_->encoder().empty() ? 1 : 0;
  if (columns < least || columns > length()) {
    throw ShapeError("prefix", fmt::format("a prefix cannot be cut to {} columns; expected {} to {}", columns,
                                           least, length()));
  }
  if (columns < length() && columns_->has_states()) {
    throw ShapeError(
        "prefix", fmt::format("this model's recurrent layers know one state of all {} columns, so that the "
                              "prefix cannot be cut to {}; run the tokens up to there with keep_prefix",
                              length(), columns));
  }
  return {model(), std::make_shared<const KvCache>(columns_->first(columns))};
}

}  // namespace hooked
