#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace hooked {

/// Blocks cut from large slabs that stay mapped, so that blocks of any size use the same pages again
/// (Note [Slabs]). Any thread may take and give back.
class SlabMemory {
 public:
  SlabMemory() = default;
  SlabMemory(const SlabMemory&) = delete;
  SlabMemory& operator=(const SlabMemory&) = delete;

  /// `bytes` of memory, aligned to 64. Throws std::bad_alloc.
  std::byte* take(std::size_t bytes);
  /// Takes back a block that `take` returned, of any size.
  void give_back(std::byte* block);
  /// Unmaps the slabs that contain no block.
  void trim();
  /// Bytes of all slabs.
  std::size_t mapped_bytes() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Slab {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
    std::size_t blocks = 0;        ///< taken
    std::uint64_t idle_since = 0;  ///< the clock when the last block was returned
  };
  using Slabs = std::map<std::byte*, Slab>;  ///< by first byte
  /// Stretches of free memory by size, then place: the first that is large enough is the best fit.
  using Stretch = std::pair<std::size_t, std::byte*>;

  Slabs::iterator slab_of(std::byte* place);
  void add_slab(std::size_t bytes);
  void remove(Slabs::iterator slab);
  void add_free(std::byte* begin, std::size_t bytes);
  void remove_free(std::byte* begin);
  /// Unmaps idle slabs, those that have been idle the longest first, while much more is idle than was
  /// recently in use at a time.
  void evict();

  mutable std::mutex mutex_;
  Slabs slabs_;
  std::map<std::byte*, std::size_t> free_;
  std::set<Stretch> by_size_;
  std::map<std::byte*, std::size_t> taken_;
  std::size_t mapped_ = 0, in_use_ = 0;
  /// The most that was in use at a time, since the last turn of the clock and before it.
  std::size_t most_lately_ = 0, most_before_ = 0;
  std::uint64_t clock_ = 0;  ///< counts what was taken
};

}  // namespace hooked
