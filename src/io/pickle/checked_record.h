#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>

#include "hooked/io/file.h"

namespace hooked {

/// A stretch of a file with a checksum over all of it, read in parts. May be read by several threads at once.
class CheckedRecord {
 public:
  /// `crc` is empty if the file has none.
  CheckedRecord(std::uint64_t begin, std::uint64_t bytes, std::optional<std::uint32_t> crc)
      : begin_(begin), bytes_(bytes), crc_(crc), verified_(!crc) {}

  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Fills `into` with the bytes from `offset` of the record on. Unless it was done before, it also reads the
  /// rest of the record to compare the checksum. Throws IoError, or CheckpointError if it is wrong.
  void read(const InputFile& file, std::uint64_t offset, std::span<std::byte> into) const;

  /// Fills `into` and reads nothing else. The checksum is compared after consecutive parts that cover the
  /// record from its first byte to its last. Throws as read() does.
  void read_part(const InputFile& file, std::uint64_t offset, std::span<std::byte> into) const;

 private:
  void compare(const InputFile& file, std::uint32_t got) const;

  std::uint64_t begin_;
  std::uint64_t bytes_;
  std::optional<std::uint32_t> crc_;
  mutable std::atomic<bool> verified_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::uint64_t parts_end_ = 0;
  mutable std::uint32_t parts_crc_ = 0;
};

}  // namespace hooked
