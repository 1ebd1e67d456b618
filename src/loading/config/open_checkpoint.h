#pragma once

#include <cstdint>
#include <filesystem>

#include "io/checkpoint/checkpoint_reader.h"

namespace hooked {

/// The longest config file of a model that is read, bytes.
inline constexpr std::uint64_t kModelConfigBytes = 1 << 20;

/// Whether a located model (locate_model) is a GGUF file, which holds its config and its tokenizer too.
bool is_gguf_file(const std::filesystem::path& model);

/// The tensors of a located model: a folder's, or one file's.
CheckpointReader open_checkpoint(const std::filesystem::path& model,
                                 MissingShards when_missing = MissingShards::refused);

}  // namespace hooked
