#pragma once

#include <filesystem>

#include "core/json.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"

namespace hooked::cli {

/// What a safetensors file holds and says about itself, of which only the header is read.
struct FileContents {
  /// Throws IoError and CheckpointError.
  explicit FileContents(const std::filesystem::path& path);

  SafetensorsFile file;
  Provenance provenance;
  TensorAxes axes;
};

/// How much a summary says about where the tensors come from.
enum class Detail : std::uint8_t {
  brief,  ///< model and input
  full,   ///< everything that is recorded, and what is not
};

/// A line for the file, one or few for each thing it says about itself, and what it holds by layers.
void print_summary(const FileContents& contents, Detail detail);

/// A line for each tensor: name, axes with their sizes, dtype.
void print_list(const FileContents& contents);

/// All of it.
Json contents_json(const FileContents& contents);

}  // namespace hooked::cli
