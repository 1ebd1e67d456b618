#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hooked/io/overwrite.h"
#include "options/command_options.h"

namespace hooked::cli {

/// The files that a command reads, and so must not overwrite.
class CommandReads {
 public:
  explicit CommandReads(const ModelOptions& model) : model_(model.model) {}
  explicit CommandReads(const InputCommandOptions& options);
  explicit CommandReads(const ScoredPairOptions& options);

  /// Adds the files that edits take values from.
  CommandReads& add(const std::vector<std::string>& edits);
  /// Adds a file, or all files of a folder; nothing for an empty name.
  CommandReads& add_path(const std::string& path);

  /// Throws IoError if `file` is one of them, or one of the model's.
  void require_not_among(const std::filesystem::path& file) const;

 private:
  std::string model_;
  std::vector<std::filesystem::path> files_;  // all but the model's
};

/// Throws what writing a file would throw about it: `Grid::require_can_save`.
using FileCheck = void (*)(const std::filesystem::path& file, Overwrite overwrite);

/// The meaning of --force.
Overwrite overwrite_of(bool force);

/// Throws IoError unless a command may write that file: what `check` throws, and for a file that it reads,
/// whatever --force says. For no file, an empty name, it does nothing. Called before anything is loaded, so
/// that no work is lost.
void require_can_write(const std::string& file, FileCheck check, const CommandReads& reads, bool force);

/// The file of one of several results: if there are several, the result's name comes before the ending.
/// Characters that are awkward in file names become `-`.
std::string file_of(const std::string& file, std::string name, bool several);

}  // namespace hooked::cli
