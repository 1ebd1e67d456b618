#include "analysis/cache_reading.h"

#include <fmt/format.h>

#include <algorithm>

#include "hooked/core/error.h"

namespace hooked {
namespace {

std::int64_t column_of(const ActivationCache::Entry& entry, std::int64_t position) {
  if (entry.positions.empty()) return position;
  if (position < 0) {
    throw HookError(
        entry.name.to_string(),
        fmt::format("only some positions were kept, so position {} cannot be counted from the end; give an "
                    "absolute position",
                    position));
  }
  const auto found = std::find(entry.positions.begin(), entry.positions.end(), position);
  if (found == entry.positions.end()) {
    throw HookError(entry.name.to_string(),
                    fmt::format("position {} was not kept; keep it with RunOptions::positions", position));
  }
  return found - entry.positions.begin();
}

}  // namespace

at::Tensor read_token(const ActivationCache& cache, const Address& address, TokenPlace place) {
  const auto column = column_of(cache.entry(address.name()), place.position);
  return cache[address.row(place.row).pos(column)];
}

void require_all_positions(const ActivationCache& cache, const ActivationName& name, const char* what) {
  const auto& entry = cache.entry(name);
  if (entry.positions.empty()) return;
  throw HookError(entry.name.to_string(),
                  fmt::format("only some positions were kept; expected all of them for {}; run without "
                              "RunOptions::positions",
                              what));
}

}  // namespace hooked
