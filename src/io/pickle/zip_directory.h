#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/io/file.h"

namespace hooked {

/// One file of a zip archive, stored without compression.
struct ZipEntry {
  std::string_view name;     ///< of the directory's own text
  std::uint64_t header = 0;  ///< byte of the archive at which its local header begins
  std::uint64_t begin = 0;   ///< byte of the archive at which its data begins
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;

  std::uint64_t end() const noexcept { return begin + bytes; }
};

/// The files of a zip archive that holds checkpoints: every one stored uncompressed, none encrypted, names
/// unique and relative, the data of each inside the archive and apart from all others'.
///
/// The directory at the end and the header before each file must agree. Nothing comes before the first header
/// or after the end record, so that no other reader can see another archive in the same bytes. Zip64 is read.
/// docs/decisions/0013-zip-checkpoints-by-our-own-reader.md says what is refused and why.
/// Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
class ZipDirectory {
 public:
  /// Reads and checks the directory and all local headers, no data. Throws IoError or CheckpointError.
  static ZipDirectory read(const InputFile& file);

  /// In the order of their names.
  const std::vector<ZipEntry>& entries() const noexcept { return entries_; }

  /// The entry of that name, or null.
  const ZipEntry* find(std::string_view name) const noexcept;

  /// False when all checksums are 0, as `torch.serialization.set_crc32_options(False)` writes them.
  bool has_checksums() const noexcept { return has_checksums_; }

 private:
  ZipDirectory() = default;

  std::vector<char> text_;  // a vector keeps its memory when moved: the names are views of it
  std::vector<ZipEntry> entries_;
  bool has_checksums_ = false;
};

}  // namespace hooked
