#pragma once

#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"
#include "loading/adapter/adapter.h"

namespace hooked {

/// Puts what the adapter makes of the base model's weights in their place: changed ones and those that it
/// replaces, under the base's names. Nothing is read yet: a weight is changed when it is read, block by
/// block. `read` is the base model's config in the dtype that it is loaded in. `adapter` must outlive
/// `source`.
///
/// Where the base's unembedding is its embedding and the adapter changes one of them, the other stays as it
/// is, as it does while the adapter is applied: the source then has both.
///
/// Returns what a user should know. Throws CheckpointError for a tensor of the adapter that fits no weight.
std::vector<std::string> merge_adapter(SourceTensors& source, const Adapter& adapter, const Family& family,
                                       const FamilyConfig& read);

}  // namespace hooked
