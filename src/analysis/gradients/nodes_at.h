#pragma once

#include <string>
#include <vector>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/address.h"

namespace hooked {

/// The nodes that a place belongs to, by the names of model_parts: a head by any of its activations, all
/// heads of a layer by one without a head, an MLP by mlp_out. Empty if it is neither. Throws HookError for a
/// place that is only a part of a node, such as one position of it, and for keys and values that heads share.
std::vector<std::string> nodes_at(const HookedTransformer& model, const Address& place);

}  // namespace hooked
