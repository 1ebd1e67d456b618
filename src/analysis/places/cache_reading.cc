#include "analysis/places/cache_reading.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooks/held_columns.h"
#include "hooks/model_of.h"

namespace hooked {
namespace {

/// Where the entry's value holds each of `columns`, [row, position]; -1 if it does not. For padding any place
/// will do.
at::Tensor places_in(const ActivationCache& cache, const ActivationCache::Entry& entry,
                     const RowColumns& columns) {
  const auto places = HeldColumns(cache, entry).places(columns.columns);
  return columns.real.defined() ? at::where(columns.real, places, places.clamp_min(0)) : places;
}

}  // namespace

void require_cache_of(const HookedTransformer& model, const ActivationCache& cache, std::string_view where) {
  require_own({model.identity(), model.config()}, cache, where);
}

RowColumns columns_of(const ActivationCache& cache, const Address& like,
                      const std::vector<Position>& positions) {
  const auto value = cache[like];
  const auto& entry = cache.entry(like.name());
  const auto& tokens = cache.tokens(entry.name.stack);
  if (!tokens && (!entry.positions.empty() || entry.row_positions.defined())) {
    throw HookError(
        entry.name.to_string(),
        "only some positions were kept, and nothing says of how many; expected a cache that a run "
        "made");
  }
  return RowColumns::of(positions, value.size(0),
                        tokens ? *tokens : TokenColumns{.first = 0, .end = value.size(1)});
}

at::Tensor columns_like(const ActivationCache& cache, const ActivationName& name, const at::Tensor& value,
                        const RowColumns& columns) {
  const auto& entry = cache.entry(name);
  const auto places = places_in(cache, entry, columns);
  if (const auto absent = places.lt(0); absent.any().item<bool>()) {
    const auto missing = absent.flatten().to(at::kLong).argmax(0).item<std::int64_t>();
    const auto row = missing / columns.positions();
    throw HookError(
        entry.name.to_string(),
        fmt::format("position {} of row {} was not kept; expected one of those that were ({}); keep it with "
                    "`keep` of the run's options",
                    columns.columns[row][missing % columns.positions()].item<std::int64_t>(), row,
                    HeldColumns(cache, entry).text()));
  }
  const auto rows = at::arange(columns.rows(), at::kLong).unsqueeze(1) * value.size(1);
  auto shape = value.sizes().vec();
  shape[1] = columns.positions();
  return value.flatten(0, 1)
      .index_select(0, to_device((rows + places).flatten(), value.device()))
      .view(shape);
}

at::Tensor read_columns(const ActivationCache& cache, const Address& address, const RowColumns& columns) {
  return columns_like(cache, address.name(), cache[address], columns);
}

std::optional<at::Tensor> columns_if_kept(const ActivationCache& cache, const Address& address,
                                          const RowColumns& columns) {
  if (!cache.contains(address.name())) return std::nullopt;
  if (places_in(cache, cache.entry(address.name()), columns).lt(0).any().item<bool>()) return std::nullopt;
  return read_columns(cache, address, columns);
}

void require_all_positions(const ActivationCache& cache, const ActivationName& name, const char* what) {
  const auto& entry = cache.entry(name);
  const HeldColumns held(cache, entry);
  if (held.all()) return;
  throw HookError(entry.name.to_string(),
                  fmt::format("only some positions were kept ({}); expected all of them for {}; run without "
                              "`keep.positions` and without a prefix, or join the runs' caches",
                              held.text(), what));
}

}  // namespace hooked
