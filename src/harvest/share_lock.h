#pragma once

#include <filesystem>
#include <string_view>

#include "hooked/harvest/harvest.h"

namespace hooked {

/// Whether a file of that name is a lock of a share.
bool is_share_lock(std::string_view name);

/// Keeps other processes from the same share of a store. It ends with the process, however that ends.
class [[nodiscard]] ShareLock {
 public:
  /// Throws IoError if another process has it.
  ShareLock(const std::filesystem::path& folder, const UnitShare& share);
  ~ShareLock();
  ShareLock(const ShareLock&) = delete;
  ShareLock& operator=(const ShareLock&) = delete;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace hooked
