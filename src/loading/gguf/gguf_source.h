#pragma once

#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"
#include "loading/gguf/gguf_architectures.h"

namespace hooked {

/// Gives the tensors of a GGUF file the names and the layout of the original checkpoint, so that the
/// family's recipes fit. Nothing is read yet: differences in layout are undone when a tensor is read, block
/// by block.
///
/// Returns what a user should know. Throws CheckpointError for a tensor that is unknown, is stored in an
/// unsupported format, or does not have the sizes in the metadata.
std::vector<std::string> read_gguf_tensors(SourceTensors& source, const GgufArchitecture& architecture,
                                           const ModelConfig& config);

/// Throws CheckpointError for tensors that no recipe reads: in a GGUF file every one is a part of the model.
void check_all_are_read(const SourceTensors& source, const std::vector<TensorRecipe>& recipes,
                        const ModelConfig& config, const Family& family);

}  // namespace hooked
