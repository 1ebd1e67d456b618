#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "families/family.h"
#include "io/checkpoint_reader.h"
#include "loading/generation_config.h"

namespace hooked {

/// The longest config file of a model that is read, bytes.
inline constexpr std::uint64_t kModelConfigBytes = 1 << 20;

/// The family of a model and what it makes of the config.
struct IdentifiedModel {
  Family family;
  FamilyConfig read;
  ConfigText config;  ///< config.json as it is, `{}` where there is none, and the group that was read
  GenerationConfig generation = {};
};

/// Whether a located model (locate_model) is a GGUF file, which holds its config and its tokenizer too.
bool is_gguf_file(const std::filesystem::path& model);

/// The tensors of a located model: a folder's, or one file's.
CheckpointReader open_checkpoint(const std::filesystem::path& model,
                                 MissingShards when_missing = MissingShards::refused);

/// Reads the config of a located model. Files with weights are opened only where config.json does not say
/// everything. Throws ConfigError, CheckpointError or IoError.
IdentifiedModel identify(const std::filesystem::path& model,
                         MissingShards when_missing = MissingShards::refused);

}  // namespace hooked
