#pragma once

#include <filesystem>

#include "io/checkpoint/source_tensor.h"
#include "loading/config/identified_model.h"

namespace hooked {

/// Reads how tensors are quantised if config.json does not say it: older folders of GPTQ and AWQ have a
/// separate file for it, quantize_config.json or quant_config.json. If both files say it, config.json takes
/// precedence, and a note reports the differences. Throws ConfigError at an unsupported key of the file.
/// Throws CheckpointError if tensors are quantised like this and nothing says how.
void read_storage_file(const std::filesystem::path& folder, const SourceTensors& source,
                       IdentifiedModel& model);

}  // namespace hooked
