#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/strings/flat_map.h"

namespace hooked::text {

/// Which two pieces may be joined, in which order (lowest rank first) and to which piece.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;
    std::int32_t id;
  };

  explicit MergeTable(std::size_t count = 0) : merges_(count) {}

  /// A pair that is added twice has its last rank.
  void add(std::int32_t left, std::int32_t right, Merge merge) { merges_[key(left, right)] = merge; }

  /// Longer pieces are refused wherever all ways to make one are tried: 1 KiB.
  static constexpr std::size_t kLongestPiece = 1024;

  /// Adds every way to join `piece`, at most kLongestPiece bytes, from two symbols: `symbol_of(part)` is the
  /// symbol of a part of it, or -1.
  template <class SymbolOf>
  void add_splits(std::string_view piece, Merge merge, SymbolOf&& symbol_of) {
    for (std::size_t at = 1; at < piece.size(); ++at) {
      const std::int32_t left = symbol_of(piece.substr(0, at));
      if (left < 0) continue;
      const std::int32_t right = symbol_of(piece.substr(at));
      if (right >= 0) add(left, right, merge);
    }
  }

  /// The result of joining a pair, or null.
  const Merge* find(std::int32_t left, std::int32_t right) const noexcept {
    return merges_.find(key(left, right));
  }

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }

  FlatMap<Merge> merges_;
};

/// A piece of a word on its way to tokens, and its length in bytes.
struct Symbol {
  std::int32_t id;
  std::uint32_t bytes;
};

/// Joins neighbouring symbols of a word until no pair can be joined: the lowest rank first, and the leftmost
/// of equal ranks (byte-pair encoding; Sennrich et al. 2016, https://arxiv.org/abs/1508.07909).
///
/// Time is n log n in the number of symbols.
class SymbolJoiner {
 public:
  /// Throws TokenizerError for a word whose length does not fit in a Symbol.
  static void require_joinable(std::string_view word);

  /// Called with each pair that could be joined, when it is first seen: SentencePiece uses it to split unused
  /// pieces again.
  using Watch = std::function<void(std::int32_t left, std::int32_t right, const MergeTable::Merge& merge)>;

  explicit SymbolJoiner(const MergeTable& merges, Watch watch = {})
      : merges_(merges), watch_(std::move(watch)) {}

  void join(std::vector<Symbol>& symbols);

  /// Two algorithms with equal results: looking at all pairs each time (for short words), and a heap.
  void join_by_scan(std::vector<Symbol>& symbols);
  void join_by_heap(std::vector<Symbol>& symbols);

 private:
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;  // of the left symbol
    std::int32_t id;   // of both together
  };
  const MergeTable::Merge* merge_of(std::int32_t left, std::int32_t right) const;
  void push(const std::vector<Symbol>& symbols, std::uint32_t left, std::uint32_t right);

  const MergeTable& merges_;
  Watch watch_;
  std::vector<MergeTable::Merge> pairs_;  // of a scan: [left symbol]
  std::vector<Link> links_;
  std::vector<Candidate> heap_;
};

}  // namespace hooked::text
