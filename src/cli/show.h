#pragma once

#include <filesystem>

#include "core/json.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"

namespace hooked::cli {

/// What a safetensors file contains and says about itself; only the header is read.
struct FileContents {
  /// Throws IoError and CheckpointError.
  explicit FileContents(const std::filesystem::path& path);

  /// Of all tensors.
  std::uint64_t bytes() const;

  SafetensorsFile file;
  Provenance provenance;
  TensorAxes axes;
};

/// How much a summary says about where the tensors come from.
enum class Detail : std::uint8_t {
  brief,  ///< model and input
  full,   ///< everything that is recorded, and what is missing
};

/// A line for the file, one or a few for each thing it says about itself, and its content by layer.
void print_summary(const FileContents& contents, Detail detail);

/// A line for each tensor: name, axes with their sizes, dtype.
void print_list(const FileContents& contents);

/// The tensors: name, axes, shape, dtype, bytes.
Json tensors_json(const FileContents& contents);

/// All of it.
Json contents_json(const FileContents& contents);

}  // namespace hooked::cli
