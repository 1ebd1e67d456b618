#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "hooked/io/file.h"

namespace hooked {

/// A closed file. It is reopened for its data, and must then be the same file that was described.
struct ClosedFile {
  std::filesystem::path path;
  FileStamp stamp;
};

/// The most recently read files, kept open: a bounded number, whatever the number of shards.
class OpenFiles {
 public:
  /// The file, shared with other threads that read from it. `index` tells files apart. Throws IoError when it
  /// cannot be opened or was changed since.
  std::shared_ptr<const InputFile> get(std::size_t index, const ClosedFile& closed);

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::size_t, std::shared_ptr<const InputFile>>> open_;
};

}  // namespace hooked
