#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Identifies a file on disk and its state: equal stamps mean equal bytes, as far as the file system tells.
struct FileStamp {
  std::uint64_t device = 0;     ///< the file system it is on
  std::uint64_t inode = 0;      ///< its number there
  std::uint64_t bytes = 0;      ///< its size
  std::int64_t changed_s = 0;   ///< time of the last change, seconds since 1970
  std::int64_t changed_ns = 0;  ///< and nanoseconds

  bool operator==(const FileStamp&) const = default;
};

/// A regular file open for reading by offset (no shared position), so several threads may read from one.
///
/// Symbolic links are followed: hub caches are made of them. Folders, pipes, sockets and devices are refused
/// without blocking on them. Data is copied when read, so a file that shrinks is an error and never a SIGBUS
/// or zeros; only `map` differs.
class InputFile {
 public:
  /// Opens `path`. Throws IoError with the reason if it is absent, unreadable or not a regular file.
  static InputFile open(const std::filesystem::path& path);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  /// As it was opened.
  const std::filesystem::path& path() const& noexcept { return path_; }
  /// The same of a temporary, as a copy.
  std::filesystem::path path() const&& { return path_; }

  /// Size in bytes when the file was opened.
  std::uint64_t size() const noexcept { return stamp_.bytes; }

  /// The file's identity and state when it was opened.
  FileStamp stamp() const noexcept { return stamp_; }

  /// Fills `into` with the bytes from `offset` on. Throws IoError if the file ends first, was changed since
  /// it was opened, or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

  /// The file's bytes in the system's page cache, for as long as the pointer lives, also without this object.
  /// Nothing is copied, pages are read when they are first touched, and processes that map the same file
  /// share them. They cannot be written to (SIGSEGV), and touching them after the file was truncated is a
  /// SIGBUS; if another file of its name replaces it, the map keeps the old bytes. Null for an empty file.
  /// Throws IoError if the system refuses or the file was changed since it was opened.
  std::shared_ptr<const std::byte> map() const;

 private:
  InputFile() = default;
  void check_unchanged() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  FileStamp stamp_;
};

/// The whole text of a regular file of at most `limit` bytes. Throws IoError if it cannot
/// be read, and CheckpointError if it is larger than `limit` or a Git LFS pointer replaces
/// it.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit);

/// Makes `path` contain exactly `bytes`: either all of them or, after an error or a crash, its previous
/// content. A symbolic link at `path` is replaced, not followed. Throws IoError.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace hooked
