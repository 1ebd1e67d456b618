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

// What stands on padding answers no question.
void refuse_padding(const ActivationCache& cache, const ActivationCache::Entry& entry, TokenPlace place) {
  const auto& columns = cache.tokens(entry.name.stack);
  if (!columns || !columns->mask.defined()) return;
  const std::int64_t row = place.row < 0 ? place.row + columns->mask.size(0) : place.row;
  if (row < 0 || row >= columns->mask.size(0)) return;  // reading says so
  const std::int64_t position = place.position < 0 ? place.position + columns->end : place.position;
  if (!columns->is_padding(row, position)) return;
  throw HookError(
      entry.name.to_string(),
      fmt::format("position {} is padding in row {}; expected a real token, the last of which is "
                  "at position {}",
                  place.position, row, columns->last(columns->mask.size(0))[row].item<std::int64_t>()));
}

}  // namespace

at::Tensor read_token(const ActivationCache& cache, const Address& address, TokenPlace place) {
  const ActivationCache::Entry& entry = cache.entry(address.name());
  refuse_padding(cache, entry, place);
  const auto column = column_of(entry, place.position);
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
