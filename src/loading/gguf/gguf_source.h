#pragma once

#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"
#include "loading/gguf/gguf_architectures.h"

namespace hooked {

/// Gives the tensors of a GGUF file the names and the layout of the checkpoint that it was made of, so that
/// the family's recipes fit. Nothing is read yet: what a tensor lies otherwise is undone when it is read,
/// block by block.
///
/// Returns what a user should know. Throws CheckpointError for a tensor that is not known, is stored in a
/// format that is not read, or does not have the sizes that the metadata says.
std::vector<std::string> read_gguf_tensors(SourceTensors& source, const GgufArchitecture& architecture,
                                           const ModelConfig& config);

/// Throws CheckpointError for tensors that no recipe reads: in a GGUF file every one is a part of the model.
void check_all_are_read(const SourceTensors& source, const std::vector<TensorRecipe>& recipes,
                        const ModelConfig& config, const Family& family);

}  // namespace hooked
