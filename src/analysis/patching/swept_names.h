#pragma once

#include <cstdint>
#include <vector>

#include "hooked/analysis/sweep.h"

namespace hooked {

/// The activations of a site in a stack, in the order of the table. Throws HookError for a site outside the
/// blocks, and for one inside dictionaries that stand at several kinds of activations, or nowhere.
std::vector<ActivationName> swept_names(const HookedTransformer& model, const SweptSite& swept, Stack stack);

/// The number of places on an axis that does not count tokens.
std::int64_t size_on(const HookedTransformer& model, const ActivationName& name, Axis axis);

}  // namespace hooked
