#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/gguf/gguf_value.h"

namespace hooked {

/// The names of all files of the model that `file` belongs to, in their order; `file` may be the only one.
/// Throws CheckpointError for a file that is not the first of its model, and for a name that does not say
/// which one it is.
std::vector<std::string> gguf_split_names(const std::string& file_name, const GgufMetadata& metadata,
                                          const std::string& where);

/// Throws CheckpointError unless a file says that it is number `index`, from 0, of `count`.
void check_gguf_split(const GgufMetadata& metadata, std::size_t index, std::size_t count,
                      const std::string& where);

}  // namespace hooked
