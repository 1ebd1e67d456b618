#include "analysis/cache_reading.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooks/model_of.h"

namespace hooked {
namespace {

/// Where the columns that an entry has lie, if only some were kept.
struct KeptColumns {
  at::Tensor matches;  ///< [row, position, kept] bool
  at::Tensor found;    ///< [row, position] bool: it is there, or padding
};

std::optional<KeptColumns> kept_columns(const ActivationCache::Entry& entry, const RowColumns& columns) {
  if (entry.positions.empty() && !entry.row_positions.defined()) return std::nullopt;
  const auto kept = entry.row_positions.defined() ? entry.row_positions.to(at::kCPU)  // [row, kept]
                                                  : at::tensor(entry.positions, at::kLong).unsqueeze(0);
  const auto matches = columns.columns.unsqueeze(2).eq(kept.unsqueeze(1));
  auto found = matches.any(2);
  if (columns.real.defined()) found = found.logical_or(columns.real.logical_not());
  return KeptColumns{matches, found};
}

/// Which column of the entry's value holds each of `columns`, [row, position].
at::Tensor places_in(const ActivationCache::Entry& entry, const RowColumns& columns) {
  const auto kept = kept_columns(entry, columns);
  if (!kept) return columns.columns;
  if (!kept->found.all().item<bool>()) {
    const auto missing = kept->found.flatten().to(at::kLong).argmin(0).item<std::int64_t>();
    const auto row = missing / columns.positions();
    throw HookError(
        entry.name.to_string(),
        fmt::format("position {} of row {} was not kept; keep it with RunOptions::keep",
                    columns.columns[row][missing % columns.positions()].item<std::int64_t>(), row));
  }
  return kept->matches.to(at::kLong).argmax(2);
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

at::Tensor columns_like(const ActivationCache::Entry& entry, const at::Tensor& value,
                        const RowColumns& columns) {
  const auto places = places_in(entry, columns);
  const auto rows = at::arange(columns.rows(), at::kLong).unsqueeze(1) * value.size(1);
  auto shape = value.sizes().vec();
  shape[1] = columns.positions();
  return value.flatten(0, 1)
      .index_select(0, to_device((rows + places).flatten(), value.device()))
      .view(shape);
}

at::Tensor read_columns(const ActivationCache& cache, const Address& address, const RowColumns& columns) {
  return columns_like(cache.entry(address.name()), cache[address], columns);
}

std::optional<at::Tensor> columns_if_kept(const ActivationCache& cache, const Address& address,
                                          const RowColumns& columns) {
  if (!cache.contains(address.name())) return std::nullopt;
  const auto kept = kept_columns(cache.entry(address.name()), columns);
  if (kept && !kept->found.all().item<bool>()) return std::nullopt;
  return read_columns(cache, address, columns);
}

const std::optional<TokenColumns>& tokens_along(const ActivationCache& cache, const ActivationName& name,
                                                Axis axis) {
  const auto& of_encoder = cache.tokens(Stack::encoder);
  return of_encoder && counts_source(name, axis) ? of_encoder : cache.tokens();
}

void require_all_positions(const ActivationCache& cache, const ActivationName& name, const char* what) {
  const auto& entry = cache.entry(name);
  if (entry.positions.empty() && !entry.row_positions.defined()) return;
  throw HookError(entry.name.to_string(),
                  fmt::format("only some positions were kept; expected all of them for {}; run without "
                              "RunOptions::keep.positions",
                              what));
}

}  // namespace hooked
