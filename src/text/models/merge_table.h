#pragma once

#include <cstdint>

#include "text/flat_map.h"

namespace hooked {

/// Which two pieces may be joined, how early (a low rank first) and to which piece.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;
    std::int32_t id;
  };

  explicit MergeTable(std::size_t count = 0) : merges_(count) {}

  /// A pair that is added twice has its last rank.
  void add(std::int32_t left, std::int32_t right, Merge merge) { merges_[key(left, right)] = merge; }

  /// What a pair is joined to, or null.
  const Merge* find(std::int32_t left, std::int32_t right) const noexcept {
    return merges_.find(key(left, right));
  }

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }

  FlatMap<Merge> merges_;
};

}  // namespace hooked
