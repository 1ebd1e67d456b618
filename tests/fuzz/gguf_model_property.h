#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "hooked/core/error.h"
#include "loading/gguf/gguf_model.h"

namespace hooked {

/// What must hold for any bytes taken as a GGUF file with a model: they are refused with an Error, or its
/// metadata becomes a config that is one. The file is written as `file`. Returns whether they were accepted;
/// throws std::logic_error where this does not hold.
inline bool gguf_model_property(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    const CheckpointReader reader = CheckpointReader::open_file(file);
    const IdentifiedModel model = identify_gguf(reader);
    model.read.config.validate();
    if (model.read.config.parameter_count() <= 0) throw std::logic_error("a model without parameters");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace hooked
