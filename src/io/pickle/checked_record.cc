#include "io/pickle/checked_record.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <vector>

#include "hooked/core/error.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

/// Read and summed up at once, so that the sum finds the bytes in the processor's cache.
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

/// Fills `into` from `offset` of the file on; returns the checksum continued from `before`.
std::uint32_t read_summed(const InputFile& file, std::uint64_t offset, std::span<std::byte> into,
                          std::uint32_t before) {
  for (std::size_t at = 0; at < into.size();) {
    const auto piece = into.subspan(at, std::min(kPieceBytes, into.size() - at));
    file.read(offset + at, piece);
    before = libdeflate_crc32(before, piece.data(), piece.size());
    at += piece.size();
  }
  return before;
}

/// The same for bytes that are only checked.
std::uint32_t pass_summed(const InputFile& file, std::uint64_t offset, std::uint64_t bytes,
                          std::uint32_t before) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kPieceBytes, bytes));
  for (std::uint64_t at = 0; at < bytes;) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), bytes - at));
    before = read_summed(file, offset + at, piece, before);
    at += piece.size();
  }
  return before;
}

}  // namespace

void CheckedRecord::read(const InputFile& file, std::uint64_t offset, std::span<std::byte> into) const {
  if (verified_) return file.read(begin_ + offset, into);
  const auto end = offset + into.size();
  auto crc = pass_summed(file, begin_, offset, 0);
  crc = read_summed(file, begin_ + offset, into, crc);
  crc = pass_summed(file, begin_ + end, bytes_ - end, crc);
  compare(file, crc);
}

void CheckedRecord::read_part(const InputFile& file, std::uint64_t offset, std::span<std::byte> into) const {
  if (verified_ || into.empty()) return file.read(begin_ + offset, into);
  const std::lock_guard lock(mutex_);
  if (offset == 0) parts_end_ = parts_crc_ = 0;
  if (offset != parts_end_) return file.read(begin_ + offset, into);
  parts_crc_ = read_summed(file, begin_ + offset, into, parts_crc_);
  parts_end_ += into.size();
  if (parts_end_ == bytes_) compare(file, parts_crc_);
}

void CheckedRecord::compare(const InputFile& file, std::uint32_t got) const {
  if (got != *crc_) {
    throw CheckpointError(path_text(file.path()),
                          fmt::format("the {} bytes from byte {} on are damaged; expected the checksum "
                                      "{:08x}, got {:08x}; fetch the file again",
                                      bytes_, begin_, *crc_, got));
  }
  verified_ = true;
}

}  // namespace hooked
