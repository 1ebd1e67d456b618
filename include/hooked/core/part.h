#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hooked/core/block_place.h"
#include "hooked/core/export.h"
#include "hooked/core/model_config.h"

namespace HOOKED_EXPORT hooked {

/// What a model may have or lack, and which points and weights exist because of it. The table `parts.inc`
/// lists them all, in the order in which they run in a block with norms before its sublayers.
enum class Part : std::uint8_t {
#define PART(part, ...) part,
#include "hooked/core/parts.inc"
};

/// Whether a block of a model has the part; parts outside the blocks need no block.
bool has(const ModelConfig& config, Part part, const BlockPlace& block = {Stack::none, -1});

/// Whether any block has it, or the model outside its blocks.
bool has_anywhere(const ModelConfig& config, Part part);

/// When the part exists, for errors and documents: `the layer has attention with latents (`latent`)`.
std::string when_there(Part part);

/// The part as something that a model has: `attention with latents (`latent`)`.
std::string_view words_of(Part part);

}  // namespace hooked
