#pragma once

#include <optional>

#include "io/files/hub_name.h"

namespace hooked {

/// The model of the hub that a short name stands for, in its revision: `gpt2-small` is openai-community/gpt2.
/// Short are the names that TransformerLens gives to models, and these models' names without an organisation;
/// case does not count. Nothing for all other names.
std::optional<HubName> whole_name(const HubName& name);

}  // namespace hooked
