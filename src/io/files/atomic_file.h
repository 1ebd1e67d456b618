#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace hooked {

/// A file being written next to its destination, which it replaces in one step when it is complete.
///
/// Note [Order of a durable write]: temporary file in the same folder (rename cannot cross file systems),
/// write, fsync the file (else the new name may point at bytes that never reached the disk), rename, fsync
/// the folder (else the new name itself may be lost). The destination is never opened for writing, so a
/// reader that has it open keeps its bytes.
class [[nodiscard]] AtomicFile {
 public:
  /// Creates the temporary file. Throws IoError, also when `path` is a folder.
  explicit AtomicFile(std::filesystem::path path);
  /// Removes the temporary file unless commit() succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws IoError with the bytes wanted and the reason.
  void write(std::span<const std::byte> bytes);

  /// Ends the writing and flushes every byte to disk. Throws IoError.
  void finish();

  /// Puts the written bytes in the destination's place, after finish() if that was not called. Throws
  /// IoError; then the destination is as it was, except when only the folder's fsync failed.
  void commit();

  /// Where the file will be.
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Whether a file of that name is the temporary file of an AtomicFile, possibly left by a program that has
  /// ended.
  static bool is_partial(std::string_view name);

 private:
  [[noreturn]] void fail(std::string_view step) const;

  std::filesystem::path path_;
  std::filesystem::path folder_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
};

}  // namespace hooked
