#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "families/family.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// How the reader's tensors are stored. Tensors that `source` does not have as they are in the files are
/// parts of weights in the form of that name (loading/storage/quantised_source.h).
std::vector<StoredTensors> stored_tensors(const CheckpointReader& reader, const SourceTensors& source,
                                          std::string_view form);

/// The tensors of models other than the family's, by those models' names.
std::vector<UnreadPart> unread_parts(const CheckpointReader& reader, const Family& family);

/// Files of the folder and its subfolders that are weights by their names but that no reader reads: paths
/// below the folder, sorted.
std::vector<std::string> ignored_files(const std::filesystem::path& folder,
                                       const std::vector<std::filesystem::path>& read);

}  // namespace hooked
