#include "text/strings/symbol_joiner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace hooked::text::symbol_joiner_test {
namespace {

struct Word {
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> bytes;
  bool operator==(const Word&) const = default;
};

Word word_of(const std::vector<Symbol>& symbols) {
  Word word;
  for (const auto& symbol : symbols) {
    word.ids.push_back(symbol.id);
    word.bytes.push_back(symbol.bytes);
  }
  return word;
}

TEST(SymbolJoiner, JoinsTheLowestRankFirstAndThenTheLeftmost) {
  MergeTable merges;
  merges.add(0, 0, {.rank = 1, .id = 2});
  merges.add(0, 1, {.rank = 0, .id = 3});
  merges.add(2, 3, {.rank = 2, .id = 4});
  SymbolJoiner joiner(merges);
  std::vector<Symbol> symbols = {{0, 1}, {0, 1}, {0, 1}, {1, 1}};
  joiner.join(symbols);
  EXPECT_EQ(word_of(symbols), (Word{{4}, {4}}));
  symbols = {{0, 1}, {0, 1}, {0, 1}};
  joiner.join(symbols);
  EXPECT_EQ(word_of(symbols), (Word{{2, 0}, {2, 1}}));
}

// Random merges as training makes them: each joins two pieces that were there before it.
TEST(SymbolJoiner, ScanAndHeapGiveTheSame) {
  std::mt19937 random(3);
  for (int run = 0; run < 300; ++run) {
    MergeTable merges;
    std::vector<std::pair<std::uint32_t, std::int32_t>> pieces;
    constexpr std::int32_t kLetters = 3;
    std::int32_t next = kLetters;
    for (std::uint32_t rank = 0; rank < 30; ++rank) {
      const auto left = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
      const auto right = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
      if (!merges.find(left, right)) merges.add(left, right, {.rank = rank, .id = next++});
    }
    std::vector<Symbol> symbols(random() % 120);
    for (auto& symbol : symbols)
      symbol = {static_cast<std::int32_t>(random() % kLetters), 1 + static_cast<std::uint32_t>(random() % 3)};
    auto scanned = symbols;
    SymbolJoiner joiner(merges);
    joiner.join_by_scan(scanned);
    joiner.join_by_heap(symbols);
    EXPECT_EQ(word_of(scanned), word_of(symbols));
  }
}

}  // namespace
}  // namespace hooked::text::symbol_joiner_test
