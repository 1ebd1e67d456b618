#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

/// A file of an archive to write, and false facts to state about it.
struct ZipMember {
  std::string name = {};
  std::string content = {};
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::optional<std::uint32_t> crc = {};             ///< instead of the right one, in both headers
  std::optional<std::uint32_t> local_crc = {};       ///< in the local header only
  std::optional<std::uint32_t> bytes = {};           ///< instead of the size, in both headers
  std::optional<std::uint32_t> directory_size = {};  ///< in the directory only
  std::optional<std::uint32_t> local_size = {};      ///< in the local header only
  std::optional<std::string> local_name = {};
  std::optional<std::uint32_t> header = {};  ///< instead of where the local header is
  bool zip64 = false;                        ///< sizes and offset in zip64 fields
};

/// The archive that contains the members.
struct ZipShape {
  std::string before = {};         ///< bytes in front; the offsets stay right
  std::string after = {};          ///< bytes after the end record
  bool zip64 = false;              ///< with a zip64 end record
  std::uint64_t entries_more = 0;  ///< added to the number of entries in the end records
};

/// A zip archive of stored files, by the format's description.
std::string zip_bytes(const std::vector<ZipMember>& members, const ZipShape& shape = {});

/// Members of a checkpoint `m`: the pickle, then storages `0`, `1`, ….
std::vector<ZipMember> checkpoint_members(std::string_view pickle, const std::vector<std::string>& storages);

/// An archive of these.
std::string checkpoint_bytes(std::string_view pickle, const std::vector<std::string>& storages);

}  // namespace hooked
