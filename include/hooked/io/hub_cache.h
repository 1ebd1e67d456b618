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

/// A model in the cache, in a revision: a branch or tag, or a commit that none of them names. A GGUF file is
/// a model of its own in a revision that has several of them, or other weights too.
struct CachedModel {
  std::string id;      ///< as locate_model takes it: `org/name`, `org/name@v1.0`, `org/name:m-Q4_K.gguf`
  std::string commit;  ///< empty if the entry does not state it
  std::filesystem::path
      folder;  ///< the revision's files; if there are none, everything that exists of the model
  std::filesystem::path file;  ///< the file below the folder that the id names, or empty
  std::string problem;         ///< why it has no files to read, in a sentence; mostly empty

  /// The file, or the folder: locate_model takes it like the id.
  std::filesystem::path path() const { return file.empty() ? folder : folder / file; }
};

/// All of them, sorted by id. Damaged ones are included, with their problem. Files of models are not
/// opened.
std::vector<CachedModel> cached_models(const HubCache& cache = hub_cache());

/// Bytes of all files of a model in the cache; a file with several links to it is counted once.
std::uint64_t stored_bytes(const CachedModel& model);

}  // namespace hooked
