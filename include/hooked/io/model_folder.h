#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The folder of the model `id`, or its one file of tensors.
///
/// A folder or file of that name wins. A file's format is what its ending says, else its first bytes
/// (Ollama's `sha256-...` are GGUF files). Otherwise `id` is `name`, `org/name` or either with `@revision` (a
/// branch, a tag or a commit; default `main`), looked up in the local Hugging Face cache: `$HF_HUB_CACHE`,
/// else `$HUGGINGFACE_HUB_CACHE`, else `$HF_HOME/hub`, else `$XDG_CACHE_HOME/huggingface/hub`, else
/// `~/.cache/huggingface/hub`. Nothing is ever downloaded. `:file` after such a name is one file of the
/// revision: `org/name:model-Q4_K_M.gguf`.
///
/// A folder without other weights than one GGUF model, in it or in one of its subfolders, is that file, or
/// the first of its several files.
///
/// Throws CheckpointError. For a folder with several GGUF models it says what to give for each; for a model
/// that is not in the cache it names the nearest ones there or, if the model has other revisions there,
/// those, where it looked, and what downloads the model. For a short name as in TransformerLens
/// (`gpt2-small`) it says the whole one (`openai-community/gpt2`). Cache layout:
/// https://huggingface.co/docs/huggingface_hub/guides/manage-cache
std::filesystem::path locate_model(std::string_view id);

/// The folder of the files that belong to the weights of a located model, such as config.json: the folder
/// itself, or the folder that a file is in. For a file in `checkpoints/` without a config.json next to it,
/// the folder above.
std::filesystem::path folder_of_model(const std::filesystem::path& model);

/// The commit of a located model in a snapshot of a hub cache (`models--org--name/snapshots/COMMIT`), however
/// it was requested; empty for models elsewhere.
std::string revision_of_model(const std::filesystem::path& model);

}  // namespace hooked
