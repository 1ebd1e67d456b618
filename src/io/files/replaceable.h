#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/io/overwrite.h"

namespace hooked {

/// Note [Nothing of others is overwritten]
/// Every writer of results asks require_replaceable before it writes. Commands ask it before they load a
/// model too, so that a refusal costs no run (docs/decisions/0085). A model's folder has a stricter rule
/// (io/files/own_folder.h). write_file and save_safetensors are the tools that these writers share: they do
/// not ask.

/// A kind of file that hooked writes.
struct FileKind {
  std::string name;                       ///< for errors: `a grid`
  std::vector<std::string_view> endings;  ///< that names of such files can have
  /// Whether hooked wrote the file as one of this kind; an Error that it throws means no. Null: such files do
  /// not say who wrote them, so none is known to be ours.
  bool (*is_ours)(const std::filesystem::path& file);
};

/// Throws IoError unless a file of that kind may be written at `file`: its ending is one of the kind's, its
/// folder exists, is writable and is in no hub cache, and if something has that name already, `overwrite`
/// allows replacing it.
void require_replaceable(const std::filesystem::path& file, const FileKind& kind, Overwrite overwrite);

/// What something is read from. Paths are absolute.
struct ReadFrom {
  std::vector<std::filesystem::path> folders, files;
};

}  // namespace hooked
