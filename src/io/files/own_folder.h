#pragma once

#include <deque>
#include <filesystem>
#include <set>
#include <string>

#include "io/files/atomic_file.h"
#include "io/files/replaceable.h"

namespace hooked {

/// What a native folder calls its config, which says that hooked wrote the folder.
inline constexpr const char* kConfigFile = "config.json";

/// A native folder (config.json and what belongs to it) that is written as a whole.
///
/// Note [A folder in one step]
/// Each file is written beside its place, and nothing of what was there is touched until all of them are on
/// the disk. Then the old config.json goes, the other files go in place, those that the new folder does not
/// have go, and the new config.json comes last. So an error or an end of the program leaves the old folder
/// whole while anything can still fail. If the machine stops within the renames, the folder has no
/// config.json and does not load: it is never read as a mixture of two models.
class [[nodiscard]] OwnFolder {
 public:
  /// Makes the folder unless it is there. `names` are all that a native folder can hold. Throws IoError as
  /// require_own_folder does and where it cannot be made.
  OwnFolder(std::filesystem::path folder, const std::set<std::string>& names, const ReadFrom& from);

  /// Begins a file of the folder.
  AtomicFile& add(const std::string& name);
  /// The same with all of its bytes.
  void add(const std::string& name, std::string_view bytes);

  /// Puts all files in place. What was in the folder before is gone. Throws IoError.
  void commit();

 private:
  std::filesystem::path folder_;
  std::set<std::string> before_;  // names of what was there
  std::deque<AtomicFile> files_;
};

/// The names of what is in `folder`; none where it is not there. Throws IoError unless a native folder may be
/// written there, which is where nothing is or one that holds only what hooked wrote: its config.json says
/// so, and besides that has only plain files called as `names` says. Never in a hub cache, nor where
/// something is read from.
std::set<std::string> require_own_folder(const std::filesystem::path& folder,
                                         const std::set<std::string>& names, const ReadFrom& from);

}  // namespace hooked
