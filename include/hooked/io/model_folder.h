#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The folder of the model `id`, or the one file of tensors whose path is `id`.
///
/// A folder or file of that name wins. Otherwise `id` is `name`, `org/name` or either with `@revision` (a
/// branch, a tag or a commit; default `main`), looked up in the local Hugging Face cache: `$HF_HUB_CACHE`,
/// else `$HUGGINGFACE_HUB_CACHE`, else `$HF_HOME/hub`, else `$XDG_CACHE_HOME/huggingface/hub`, else
/// `~/.cache/huggingface/hub`. Nothing is ever downloaded.
///
/// Throws CheckpointError that names the nearest models of the cache (`gpt2`: `openai-community/gpt2`) or, if
/// the model has other revisions there, those; it says where it looked and what downloads the model. Cache
/// layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
std::filesystem::path locate_model(std::string_view id);

/// The folder of the files that belong to the weights of a located model, such as config.json: the folder
/// itself, or the folder that a file is in. For a file in `checkpoints/` without a config.json next to it,
/// the folder above.
std::filesystem::path folder_of_model(const std::filesystem::path& model);

/// The commit of a located model in a snapshot of a hub cache (`models--org--name/snapshots/COMMIT`), however
/// it was requested; empty for models elsewhere.
std::string revision_of_model(const std::filesystem::path& model);

}  // namespace hooked
