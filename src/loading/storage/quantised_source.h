#pragma once

#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// Puts the weights that are stored as `storage` says in the place of the tensors that they are made of,
/// under the names that they have where they are stored as numbers. Nothing is read yet: a weight's numbers
/// are made when they are read, block by block, in float32, which holds each of them as transformers computes
/// it. Tensors of other models of the checkpoint stay as they are, and factors of activations are taken out.
///
/// Returns what a user should know. Throws CheckpointError for factors that are missing or of another shape,
/// for numbers that are no whole groups, and for weights that config.json says are stored otherwise.
std::vector<std::string> read_quantised(SourceTensors& source, const QuantisedStorage& storage,
                                        const Family& family);

}  // namespace hooked
