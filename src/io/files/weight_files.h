#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

// What the names of files say about the weights in them. No file is opened, and nothing needs LibTorch,
// because the program's launcher lists models.

inline constexpr std::string_view kSafetensorsEnding = ".safetensors";
inline constexpr std::string_view kGgufEnding = ".gguf";
inline constexpr std::array<std::string_view, 4> kZipEndings = {".bin", ".pt", ".pth", ".ckpt"};

/// Where training runs in TransformerLens's style keep their checkpoints, below the folder of the model.
inline constexpr std::string_view kCheckpointsFolder = "checkpoints";

/// Whether a file's name says that torch.save wrote it.
bool is_zip_name(std::string_view name);

/// Whether a file's name says that it is a GGUF file.
bool is_gguf_name(std::string_view name);

/// Whether a file's name says that it holds tensors.
bool is_tensor_name(std::string_view name);

/// Names of the folder's files that may hold tensors, sorted.
std::vector<std::string> tensor_files(const std::filesystem::path& folder);

/// The GGUF models in a folder, and what else it holds.
struct GgufModels {
  /// What to give for each: its only file, or the first of several (`m-00001-of-00003.gguf`). Paths below the
  /// folder, in it or in one of its subfolders; sorted. A first file may be missing where others are present.
  std::vector<std::filesystem::path> files;
  bool only = false;  ///< neither the folder nor its `checkpoints` has another file of tensors
};

GgufModels gguf_models_in(const std::filesystem::path& folder);

/// The name that matches all files of the GGUF model that `name` belongs to: `m-*-of-00003.gguf`, or the name
/// itself for a model of one file.
std::string gguf_pattern(std::string_view name);

/// All files of the GGUF model that `file` belongs to, sorted; those that are missing are left out.
std::vector<std::filesystem::path> gguf_files_of(const std::filesystem::path& file);

}  // namespace hooked
