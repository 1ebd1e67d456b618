#include "analysis/cache_reading.h"

#include <fmt/format.h>

#include <algorithm>

#include "hooked/core/error.h"

namespace hooked {
namespace {

/// The absolute positions an entry was kept at; empty means all.
std::vector<std::int64_t> kept_positions(const ActivationCache& cache, const ActivationName& name) {
  const auto entry = std::find_if(cache.begin(), cache.end(), [&](const auto& e) { return e.name == name; });
  return entry == cache.end() ? std::vector<std::int64_t>{} : entry->positions;
}

std::int64_t column_of(const ActivationCache& cache, const ActivationName& name, std::int64_t position) {
  const auto kept = kept_positions(cache, name);
  if (kept.empty()) return position;
  if (position < 0) {
    throw HookError(
        name.to_string(),
        fmt::format("only some positions were kept, so position {} cannot be counted from the end; give an "
                    "absolute position",
                    position));
  }
  const auto found = std::find(kept.begin(), kept.end(), position);
  if (found == kept.end()) {
    throw HookError(name.to_string(),
                    fmt::format("position {} was not kept; keep it with RunOptions::positions", position));
  }
  return found - kept.begin();
}

}  // namespace

at::Tensor read_token(const ActivationCache& cache, const Address& address, TokenPlace place) {
  cache[address];  // says what is missing before anything is counted
  const auto column = column_of(cache, address.name(), place.position);
  return cache[address.row(place.row).pos(column)];
}

void require_all_positions(const ActivationCache& cache, const ActivationName& name, const char* what) {
  if (kept_positions(cache, name).empty()) return;
  throw HookError(name.to_string(),
                  fmt::format("only some positions were kept; expected all of them for {}; run without "
                              "RunOptions::positions",
                              what));
}

}  // namespace hooked
