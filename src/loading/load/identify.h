#pragma once

#include <filesystem>

#include "loading/config/identified_model.h"
#include "loading/config/open_checkpoint.h"

namespace hooked {

/// Reads the config of a located model. Weight files are opened only if config.json does not say everything.
/// Throws ConfigError, CheckpointError or IoError.
IdentifiedModel identify(const std::filesystem::path& model,
                         MissingShards when_missing = MissingShards::refused);

}  // namespace hooked
