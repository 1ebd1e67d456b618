#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "analysis/places/row_columns.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace hooked {

/// Throws HookError in the name of `where` for a cache of another model.
void require_cache_of(const HookedTransformer& model, const ActivationCache& cache, std::string_view where);

/// The columns of the run that made a cache, as far as the cache knows them; else those of the activation
/// `like`, which has a pos axis after its batch axis. Throws HookError if it is missing.
RowColumns columns_of(const ActivationCache& cache, const Address& like,
                      const std::vector<Position>& positions);

/// What `cache` holds at these columns of a site whose first axes are batch and pos: [row, position, ...].
/// Throws HookError if the activation is missing or a column was not kept.
at::Tensor read_columns(const ActivationCache& cache, const Address& address, const RowColumns& columns);

/// The same for `value` [row, pos, ...], which has the activation's columns. Differentiable.
at::Tensor columns_like(const ActivationCache& cache, const ActivationName& name, const at::Tensor& value,
                        const RowColumns& columns);

/// What read_columns() returns if the cache has the activation at all of these columns; else nothing.
std::optional<at::Tensor> columns_if_kept(const ActivationCache& cache, const Address& address,
                                          const RowColumns& columns);

/// Throws HookError unless the cache holds all positions of that activation: `what` needs them.
void require_all_positions(const ActivationCache& cache, const ActivationName& name, const char* what);

}  // namespace hooked
