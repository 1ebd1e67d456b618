#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/weight_files.h"
#include "io/tensors/tensor_file.h"

namespace hooked {

/// A file that holds a model, and what such a file is.
struct ModelFile {
  std::filesystem::path name;  ///< below the folder
  TensorFormat format;
  enum class Holds { kTensors, kIndex } holds;
};

/// A native folder's weights in packed form (loading/fill/packed_file.h).
inline constexpr std::string_view kPackedFile = "packed.safetensors";

/// The file of `folder` to read, and what a user should know about the choice.
struct ModelFileChoice {
  ModelFile file;
  std::vector<std::string> notes;
};

/// Picks by a fixed order: safetensors before pickles, one file before an index, Hugging Face's names before
/// those of training scripts. If none of the known names exists: the only `.pt` or `.pth` file, the only one
/// of several that ends in `final.pth`, or without any the only one in `checkpoints/`. Throws
/// CheckpointError, saying what was looked for and what the folder contains instead.
ModelFileChoice choose_model_file(const std::filesystem::path& folder);

/// Whether the folder has a file under one of the usual names of model files.
bool has_model_file(const std::filesystem::path& folder);

/// The format of a file by its name's ending, else by its first bytes; nothing for a file that neither tells.
/// Throws IoError for a file without such an ending that cannot be read.
std::optional<TensorFormat> format_of(const std::filesystem::path& file);

/// Shards of the folder that look like those of this kind of index but are not among `used`, sorted.
std::vector<std::string> unused_shards(const std::filesystem::path& folder, TensorFormat format,
                                       const std::vector<std::string>& used);

/// True if something has that name, even a dangling link: opening it then says what is wrong with
/// it.
bool is_there(const std::filesystem::path& path);

}  // namespace hooked
