#pragma once

#include <filesystem>
#include <string_view>

#include "loading/gguf/gguf_model.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

/// What must hold for any bytes taken as a GGUF file with a model: they are refused with an Error, or its
/// metadata becomes a config that is one. The file is written as `file`. Returns whether they were accepted;
/// throws std::logic_error where this does not hold.
inline bool gguf_model_property(const std::filesystem::path& file, std::string_view bytes) {
  write_bytes(file, bytes);
  return accepts([&] {
    const CheckpointReader reader = CheckpointReader::open_file(file);
    const IdentifiedModel model = identify_gguf(reader);
    model.read.config.validate();
    hold(model.read.config.parameter_count() > 0, "a model without parameters");
  });
}

inline bool gguf_model_property(std::string_view bytes) {
  return gguf_model_property(scratch() / "model.gguf", bytes);
}

}  // namespace hooked
