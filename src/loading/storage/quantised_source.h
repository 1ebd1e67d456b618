#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"
#include "loading/config/identified_model.h"

namespace hooked {

/// Replaces the tensors of weights that are stored as `storage` says by these weights, under their names in
/// unquantised files. Nothing is read yet: a weight's numbers are computed when they are read, block by
/// block, in float32, which represents each of them as transformers computes it. Tensors of other models of
/// the checkpoint stay as they are, and factors of activations are removed.
///
/// Returns what a user should know. Throws CheckpointError for factors that are missing or of another shape,
/// for numbers that are not whole groups, and for weights that config.json says are stored otherwise.
std::vector<std::string> read_quantised(SourceTensors& source, const QuantisedStorage& storage,
                                        const Family& family);

/// Reads how tensors are quantised if config.json does not say it: older folders of GPTQ and AWQ have a
/// separate file for it, quantize_config.json or quant_config.json. If both files say it, config.json takes
/// precedence, and a note reports the differences. Throws ConfigError at an unsupported key of the file.
/// Throws CheckpointError if tensors are quantised like this and nothing says how.
void read_storage_file(const std::filesystem::path& folder, const SourceTensors& source,
                       IdentifiedModel& model);

}  // namespace hooked
