#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/models/symbol_joiner.h"

namespace hooked {

/// The symbols of the words that an encoder met last. Bounded: a word takes the place of another with the
/// same hash, and all are forgotten when they take too much memory. Belongs to one encoder, so to one thread.
class WordCache {
 public:
  /// For a text of so many bytes. The words must stay where they are.
  explicit WordCache(std::size_t text_bytes);

  /// The symbols of a word, or null. Valid until the next put().
  std::span<const Symbol> find(std::string_view word) noexcept;

  /// Keeps the symbols, at least one, of a word that find() has just not found.
  void put(std::string_view word, std::span<const Symbol> symbols);

 private:
  struct Slot {
    std::string_view word;
    std::uint32_t begin = 0;
    std::uint32_t count = 0;  // 0: free
  };

  std::vector<Slot> slots_;  // a power of two
  std::vector<Symbol> symbols_;
  std::size_t last_ = 0;  // the slot that find() looked at
};

}  // namespace hooked
