#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "hooked/io/safetensors.h"
#include "io/files/atomic_file.h"

namespace hooked {

/// What save_safetensors writes, into a file that the caller puts in place. Throws as save_safetensors does.
void write_safetensors(AtomicFile& file, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const SafetensorsOptions& options);

}  // namespace hooked
