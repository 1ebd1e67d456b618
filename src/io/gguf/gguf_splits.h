#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/gguf/gguf_value.h"

namespace hooked {

/// Of `file`, which is one of several or all there is: the names of all files of the model, in their order.
/// Throws CheckpointError for a file that is not the first of its model, and for a name that does not say
/// which one it is.
std::vector<std::string> gguf_split_names(const std::string& file_name, const GgufMetadata& metadata,
                                          const std::string& where);

/// What the names of all files match, of several whose first is `first`: `m-*-of-00003.gguf`.
std::string gguf_split_pattern(const std::string& first);

/// Refuses a file that does not say it is number `index`, from 0, of `count`: throws CheckpointError.
void check_gguf_split(const GgufMetadata& metadata, std::size_t index, std::size_t count,
                      const std::string& where);

}  // namespace hooked
