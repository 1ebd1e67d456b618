#pragma once

#include <filesystem>

#include "hooked/io/checkpoint_reader.h"
#include "models/families/family.h"

namespace hooked {

/// The family of a model and what it makes of the config.
struct IdentifiedModel {
  const Family& family;
  FamilyConfig read;
};

/// The tensors of a located model (locate_model): a folder's, or one file's.
CheckpointReader open_checkpoint(const std::filesystem::path& model);

/// Reads the config of a located model. Files with weights are opened only where config.json does not say
/// everything. Throws ConfigError, CheckpointError or IoError.
IdentifiedModel identify(const std::filesystem::path& model);

}  // namespace hooked
