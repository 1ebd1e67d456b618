#pragma once

#include <cstddef>
#include <cstdint>

namespace hooked {

/// Limits of the reader of PyTorch's zip files; one more is refused.
struct ZipCheckpointLimits {
  static constexpr std::uint64_t kEntries = 131'072;
  static constexpr std::uint64_t kDirectoryBytes = std::uint64_t{32} << 20;
  /// Of an entry of the archive, and of a tensor.
  static constexpr std::size_t kNameBytes = 4096;
  static constexpr std::uint64_t kPickleBytes = std::uint64_t{64} << 20;
  /// Memory for what the pickle describes, without the pickle itself: enough for 100,000 plain tensors.
  static constexpr std::uint64_t kBuiltBytes = std::uint64_t{56} << 20;
  /// Values on the pickle's stack, marks included.
  static constexpr std::size_t kStack = 65'536;
  static constexpr std::size_t kMemo = std::size_t{1} << 20;
  static constexpr std::size_t kTensors = 100'000;
  static constexpr std::size_t kRank = 8;
  /// Of the plain values stored with the tensors: nesting depth of lists and dicts, number of values, bytes
  /// of all texts.
  static constexpr std::size_t kPlainDepth = 64;
  static constexpr std::size_t kPlainValues = 262'144;
  static constexpr std::size_t kPlainBytes = std::size_t{4} << 20;
};

}  // namespace hooked
