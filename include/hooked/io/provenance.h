#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/io/safetensors.h"

namespace HOOKED_EXPORT hooked {

/// Where the tensors of a file come from. Empty fields are not recorded. docs/cache-files.md says how it is
/// written; HookedTransformer::provenance() returns what a model knows. For designated initialisers.
struct Provenance {
  std::string hooked_version = {};  ///< version that wrote the file; new files get this library's
  std::string model = {};           ///< the argument of HookedTransformer::load
  std::string revision = {};        ///< the commit, if the model came from a snapshot of a hub cache
  std::string config_sha1 = {};     ///< of the config.json that saving the model would write
  std::string fingerprint = {};     ///< of the model's config and weights (ModelIdentity)
  std::string dtype = {};           ///< of the model: `float32`
  /// Each processing step and its outcome.
  std::vector<std::pair<std::string, std::string>> processing = {};
  /// `ADDRESS OP VALUE` each; an empty list says that there were none.
  std::optional<std::vector<std::string>> edits = std::nullopt;
  std::vector<std::string> texts = {};                 ///< the input's rows, if it was text
  std::vector<std::vector<std::int64_t>> tokens = {};  ///< the input's rows, if it was ids
  /// Entries under custom keys.
  std::map<std::string, std::string> more = {};
};

/// Names of the axes of tensors, outermost first: `{"logits", {"batch", "pos", "vocab"}}`.
using TensorAxes = std::map<std::string, std::vector<std::string>>;

/// Both as the metadata of a safetensors file, with `"format": "pt"`, which other readers look for. Throws
/// CheckpointError if a key of `more` is already used.
std::map<std::string, std::string> to_metadata(const Provenance& provenance, const TensorAxes& axes);

/// The provenance in a file's metadata. A file that hooked did not write has its metadata in `more` and
/// nothing else. Throws CheckpointError if the record is damaged.
Provenance read_provenance(const SafetensorsFile& file);

/// The axes of the file's tensors, for those whose axes are recorded. Throws CheckpointError if they do not
/// fit the tensors.
TensorAxes read_axes(const SafetensorsFile& file);

}  // namespace hooked
