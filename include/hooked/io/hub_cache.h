#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The folder of the local Hugging Face cache, and the environment variable that selected it.
struct HubCache {
  std::filesystem::path path;  ///< need not exist
  std::string chosen_by;       ///< `HF_HOME`
};

/// The cache that models are looked up in (locate_model in hooked/io/model_folder.h has the rule). The folder
/// need not exist.
HubCache hub_cache();

/// A revision of a model in the cache: a branch or tag, or a commit that none of them names.
struct CachedModel {
  std::string id;      ///< as locate_model takes it: `org/name`, `org/name@v1.0`
  std::string commit;  ///< empty if the entry does not state it
  std::filesystem::path
      folder;           ///< the revision's files; if there are none, everything that exists of the model
  std::string problem;  ///< why it has no files to read, in a sentence; mostly empty
};

/// All of them, sorted by id. Damaged ones are included, with their problem. Files of models are not
/// opened.
std::vector<CachedModel> cached_models(const HubCache& cache = hub_cache());

/// Bytes of all files in a folder of the cache; a file with several links to it is counted once.
std::uint64_t stored_bytes(const std::filesystem::path& folder);

}  // namespace hooked
