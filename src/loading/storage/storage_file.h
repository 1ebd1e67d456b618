#pragma once

#include <filesystem>

#include "io/checkpoint/source_tensor.h"
#include "loading/config/identified_model.h"

namespace hooked {

/// Reads how tensors are quantised where config.json does not say it: older folders of GPTQ and AWQ have a
/// file of their own for it, quantize_config.json or quant_config.json. Where both speak, config.json holds,
/// and a note reports what the file says otherwise. Throws ConfigError at a key of the file that is not
/// supported. Throws CheckpointError where tensors are quantised like this and nothing says how.
void read_storage_file(const std::filesystem::path& folder, const SourceTensors& source,
                       IdentifiedModel& model);

}  // namespace hooked
