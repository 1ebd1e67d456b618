#include "text/strings/symbol_joiner.h"

#include <fmt/format.h>

#include <algorithm>

#include "hooked/core/error.h"

namespace hooked::text {
namespace {

// A scan is faster than a heap up to this many symbols.
constexpr std::size_t kScanned = 48;

constexpr std::uint32_t kNoSymbol = 0xFFFFFFFF;
constexpr std::size_t kLongestWord = std::size_t{1} << 31;

}  // namespace

void SymbolJoiner::require_joinable(std::string_view word) {
  if (word.size() <= kLongestWord) return;
  throw TokenizerError("text",
                       fmt::format("has a word of {} bytes; expected at most {}", word.size(), kLongestWord));
}

void SymbolJoiner::join(std::vector<Symbol>& symbols) {
  if (symbols.size() <= kScanned) {
    join_by_scan(symbols);
  } else {
    join_by_heap(symbols);
  }
}

const MergeTable::Merge* SymbolJoiner::merge_of(std::int32_t left, std::int32_t right) const {
  const auto* merge = merges_.find(left, right);
  if (merge && watch_) watch_(left, right, *merge);
  return merge;
}

void SymbolJoiner::join_by_scan(std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  const auto pair_at = [&](std::size_t left) {
    const auto* merge = merge_of(symbols[left].id, symbols[left + 1].id);
    return merge ? *merge : MergeTable::Merge{kNoSymbol, 0};
  };
  pairs_.resize(symbols.size() - 1);
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i] = pair_at(i);
  while (!pairs_.empty()) {
    const auto best = std::min_element(
        pairs_.begin(), pairs_.end(),
        [](const MergeTable::Merge& a, const MergeTable::Merge& b) { return a.rank < b.rank; });
    if (best->rank == kNoSymbol) return;
    const auto at = best - pairs_.begin();
    const auto left = static_cast<std::size_t>(at);
    symbols[left] = {best->id, symbols[left].bytes + symbols[left + 1].bytes};
    symbols.erase(symbols.begin() + at + 1);
    pairs_.erase(best);
    if (left > 0) pairs_[left - 1] = pair_at(left - 1);
    if (left < pairs_.size()) pairs_[left] = pair_at(left);
  }
}

void SymbolJoiner::push(const std::vector<Symbol>& symbols, std::uint32_t left, std::uint32_t right) {
  if (const auto* merge = merge_of(symbols[left].id, symbols[right].id)) {
    heap_.push_back({merge->rank, left, merge->id});
  }
}

void SymbolJoiner::join_by_heap(std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  links_.resize(count);
  heap_.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    links_[i] = {i == 0 ? kNoSymbol : i - 1, i + 1 == count ? kNoSymbol : i + 1};
    if (i + 1 < count) push(symbols, i, i + 1);
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
  const auto push_pair = [&](std::uint32_t left, std::uint32_t right) {
    const auto before = heap_.size();
    push(symbols, left, right);
    if (heap_.size() != before) std::push_heap(heap_.begin(), heap_.end(), later);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const auto top = heap_.back();
    heap_.pop_back();
    // The pair may have been joined to others since: a symbol without bytes is part of the one to its left.
    const auto right = links_[top.at].next;
    if (symbols[top.at].bytes == 0 || right == kNoSymbol) continue;
    const auto* merge = merges_.find(symbols[top.at].id, symbols[right].id);
    if (!merge || merge->id != top.id) continue;

    symbols[top.at] = {top.id, symbols[top.at].bytes + symbols[right].bytes};
    symbols[right].bytes = 0;
    const auto next = links_[right].next;
    links_[top.at].next = next;
    if (next != kNoSymbol) links_[next].previous = top.at;
    if (links_[top.at].previous != kNoSymbol) push_pair(links_[top.at].previous, top.at);
    if (next != kNoSymbol) push_pair(top.at, next);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.bytes == 0; });
}

}  // namespace hooked::text
