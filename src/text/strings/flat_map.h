#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hooked::text {

/// A map from numbers below 2^64 - 1 to small values, in one block of memory: for tables in which every
/// character of a text is looked up. Keys cannot be removed.
template <class Value>
class FlatMap {
 public:
  /// Reserves room for `count` keys; more may follow.
  explicit FlatMap(std::size_t count = 0) { slots_.resize(capacity_for(count)); }

  std::size_t size() const noexcept { return size_; }

  /// The value of a key, or null.
  const Value* find(std::uint64_t key) const noexcept {
    const auto& slot = slots_[place(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

  /// The value of a key, which is added if absent.
  Value& operator[](std::uint64_t key) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    auto& slot = slots_[place(key)];
    if (slot.key != key) {
      slot.key = key;
      ++size_;
    }
    return slot.value;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Value value{};
  };

  static std::size_t capacity_for(std::size_t count) noexcept {
    std::size_t capacity = 16;
    while (capacity < 2 * (count + 1)) capacity *= 2;
    return capacity;
  }

  // The index of a key, or the index where it would be added.
  std::size_t place(std::uint64_t key) const noexcept {
    const auto mask = slots_.size() - 1;
    auto hash = key * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
    auto at = static_cast<std::size_t>(hash) & mask;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const auto& slot : old) {
      if (slot.key != kFree) slots_[place(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace hooked::text
