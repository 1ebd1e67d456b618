#pragma once

#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"
#include "loading/adapter/adapter.h"

namespace hooked {

/// Replaces weights of the base model by those that the adapter changes or provides, under the
/// base's names. Nothing is read yet: a weight is changed when it is read, block by block.
/// `read` is the base model's config in the dtype that it is loaded in. `adapter` must outlive
/// `source`.
///
/// If the base's unembedding is tied to its embedding and the adapter changes one of them, the other stays
/// unchanged, as it does while the adapter is applied: the source then has both.
///
/// Returns what a user should know. Throws CheckpointError for a tensor of the adapter that fits no weight.
std::vector<std::string> merge_adapter(SourceTensors& source, const Adapter& adapter, const Family& family,
                                       const FamilyConfig& read);

}  // namespace hooked
