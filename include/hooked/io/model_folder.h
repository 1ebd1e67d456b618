#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The folder that holds the model `id`, or the one file of tensors that `id` is the path of.
///
/// A folder or file of that name wins. Otherwise `id` is `name`, `org/name` or either with `@revision` (a
/// branch, a tag or a commit; default `main`), looked up in the local Hugging Face cache: `$HF_HUB_CACHE`,
/// else `$HUGGINGFACE_HUB_CACHE`, else `$HF_HOME/hub`, else `$XDG_CACHE_HOME/huggingface/hub`, else
/// `~/.cache/huggingface/hub`. Nothing is ever downloaded.
///
/// Throws CheckpointError that names the nearest models of the cache (`gpt2`: `openai-community/gpt2`) or,
/// where the model is there in other revisions, those; it says where it looked and what downloads the model.
/// Cache layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
std::filesystem::path locate_model(std::string_view id);

/// Where the files are that belong to the weights of a located model, such as config.json: the folder itself,
/// or the folder that a file is in. For a file in `checkpoints/` without a config.json beside it, the folder
/// above.
std::filesystem::path folder_of_model(const std::filesystem::path& model);

/// The commit of a located model that lies in a snapshot of a hub cache
/// (`models--org--name/snapshots/COMMIT`), however it was asked for; empty for models elsewhere.
std::string revision_of_model(const std::filesystem::path& model);

}  // namespace hooked
