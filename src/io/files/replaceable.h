#pragma once

#include <deque>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/io/overwrite.h"
#include "io/files/atomic_file.h"

namespace hooked {

/// Note [Nothing of others is overwritten]
/// Every writer of results asks require_replaceable before it writes. Commands ask it before they load a
/// model too, so that a refusal costs no run (docs/decisions/0085). A model's folder has a stricter rule
/// (require_own_folder). write_file and save_safetensors are the tools that these writers share: they do
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

/// What a native folder calls its config, which says that hooked wrote the folder.
inline constexpr const char* kConfigFile = "config.json";

/// A kind of folder that hooked writes as a whole: a config, and the files that belong to it.
struct FolderKind {
  std::string_view holds;       ///< for errors: `model`
  std::string_view config;      ///< the file that says that hooked wrote the folder
  std::set<std::string> names;  ///< of all files that such a folder can hold
  /// Whether that file, which may be absent, says so.
  bool (*is_ours)(const std::filesystem::path& config);
};

/// A native folder of a model with files of these names.
FolderKind native_folder(std::set<std::string> names);

/// A folder of one kind that is written as a whole.
///
/// Note [A folder in one step]
/// Each file is written next to its destination, and no existing file is touched until all of them are on the
/// disk. Then the old config is removed, the other files are renamed into place, those that the new folder
/// does not have are removed, and the new config is placed last. So an error or an end of the program leaves
/// the old folder whole while anything can still fail. If the machine stops within the renames, the folder
/// has no config and does not load: it is never read as a mixture of two.
class [[nodiscard]] OwnFolder {
 public:
  /// Creates the folder if it does not exist. Throws IoError as require_own_folder does and if the folder
  /// cannot be created.
  OwnFolder(std::filesystem::path folder, const FolderKind& kind, const ReadFrom& from);
  /// Unless the files were put in place, removes the folders that were made for them.
  ~OwnFolder();
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  /// Begins a file of the folder.
  AtomicFile& add(const std::string& name);
  /// The same with all of its bytes.
  void add(const std::string& name, std::string_view bytes);

  /// Puts all files in place and removes the folder's old ones. Throws IoError.
  void commit();

 private:
  std::filesystem::path folder_;
  std::string config_;
  std::set<std::string> before_;             // names of what was there
  std::vector<std::filesystem::path> made_;  // folders that were not there, the innermost first
  std::deque<AtomicFile> files_;
};

/// The names of the entries of `folder`; none if it does not exist. Throws IoError unless a folder of that
/// kind may be written there: either nothing is there, or a folder with only files that hooked wrote. Its
/// config says so, and all others are plain files whose names are the kind's. Never in a hub cache, nor where
/// something is read from.
std::set<std::string> require_own_folder(const std::filesystem::path& folder, const FolderKind& kind,
                                         const ReadFrom& from);

}  // namespace hooked
