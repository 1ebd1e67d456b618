#include "text/models/word_cache.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace hooked {
namespace {

constexpr std::size_t kSlots = std::size_t{1} << 16;
constexpr std::size_t kSymbols = std::size_t{1} << 20;

}  // namespace

WordCache::WordCache(std::size_t text_bytes)
    : slots_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 16, 16, kSlots))) {}

std::span<const Symbol> WordCache::find(std::string_view word) noexcept {
  last_ = std::hash<std::string_view>{}(word) & (slots_.size() - 1);
  const auto& slot = slots_[last_];
  if (slot.count == 0 || slot.word != word) return {};
  return std::span(symbols_).subspan(slot.begin, slot.count);
}

void WordCache::put(std::string_view word, std::span<const Symbol> symbols) {
  if (symbols_.size() + symbols.size() > kSymbols) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    symbols_.clear();
  }
  slots_[last_] = {word, static_cast<std::uint32_t>(symbols_.size()),
                   static_cast<std::uint32_t>(symbols.size())};
  symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
}

}  // namespace hooked
