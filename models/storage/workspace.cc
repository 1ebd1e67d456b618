#include "models/storage/workspace.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

// Note [Slabs]
// Fresh pages cost more than the arithmetic that fills them. Blocks of one run are cut from slabs next to
// each other, and a returned block joins its free neighbours, so that a run of another shape cuts its blocks
// from the same pages. Blocks kept by size would only serve their own shape: with all the allowed memory used
// up by one shape, every other would fault its pages anew each time.

namespace hooked {
namespace {

constexpr std::size_t kAlignment = 64;
// Between neighbours, so that activations, whose sizes are often multiples of a page, do not all begin at the
// same offset of a page and evict one another from the cache.
constexpr std::size_t kColouring = 5 * kAlignment;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLargestSlab = std::size_t{32} << 20;
// How many blocks are taken (in some hundred runs of a small model) until earlier usage is
// forgotten.
constexpr std::uint64_t kTurn = 20'000;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

// Below this the C library serves memory that is already mapped.
constexpr std::size_t kSmall = std::size_t{64} << 10;

}  // namespace

/// Blocks cut from large slabs that stay mapped, so that blocks of any size use the same pages again
/// (Note [Slabs]). Any thread may take and give back.
class SlabMemory {
 public:
  /// `bytes` of memory, aligned to 64. Throws std::bad_alloc.
  std::byte* take(std::size_t bytes);
  /// Takes back a block that `take` returned, of any size.
  void give_back(std::byte* block);
  /// Unmaps the slabs that contain no block.
  void trim();
  /// Bytes of all slabs.
  std::size_t mapped_bytes() const {
    const std::lock_guard lock(mutex_);
    return mapped_;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
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

  Slabs::iterator slab_of(std::byte* place) { return std::prev(slabs_.upper_bound(place)); }
  void add_slab(std::size_t bytes);
  void remove(Slabs::iterator slab);
  void add_free(std::byte* begin, std::size_t bytes) {
    free_.emplace(begin, bytes);
    by_size_.emplace(bytes, begin);
  }
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

std::byte* SlabMemory::take(std::size_t bytes) {
  const std::size_t size = round_up(bytes, kAlignment) + kColouring;
  const std::lock_guard lock(mutex_);
  auto found = by_size_.lower_bound({size, nullptr});
  if (found == by_size_.end()) {
    add_slab(size);
    found = by_size_.lower_bound({size, nullptr});
  }
  const auto [stretch, begin] = *found;
  remove_free(begin);
  if (stretch > size) add_free(begin + size, stretch - size);
  taken_.emplace(begin, size);
  ++slab_of(begin)->second.blocks;
  in_use_ += size;
  most_lately_ = std::max(most_lately_, in_use_);
  if (++clock_ % kTurn == 0) {
    most_before_ = most_lately_;
    most_lately_ = in_use_;
  }
  return begin;
}

void SlabMemory::give_back(std::byte* block) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(block);
  std::byte* begin = block;
  std::size_t size = taken->second;
  taken_.erase(taken);
  in_use_ -= size;
  const auto slab = slab_of(block);
  const auto after = free_.lower_bound(block);
  if (after != free_.end() && after->first == block + size && slab_of(after->first) == slab) {
    size += after->second;
    remove_free(after->first);
  }
  if (const auto next = free_.lower_bound(block); next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == block && slab_of(before->first) == slab) {
      begin = before->first;
      size += before->second;
      remove_free(begin);
    }
  }
  add_free(begin, size);
  if (--slab->second.blocks > 0) return;
  slab->second.idle_since = clock_;
  evict();
}

void SlabMemory::trim() {
  const std::lock_guard lock(mutex_);
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    const auto next = std::next(slab);
    if (slab->second.blocks == 0) remove(slab);
    slab = next;
  }
  most_lately_ = most_before_ = in_use_;
}

// Slabs grow with what is mapped, so that a small model holds little.
void SlabMemory::add_slab(std::size_t bytes) {
  const std::size_t usual = std::clamp(std::bit_ceil(mapped_ / 4 + 1), kHugePage, kLargestSlab);
  const std::size_t size = round_up(std::max(bytes, usual), kHugePage);
  Slab slab{.memory = std::unique_ptr<std::byte, Free>(
                static_cast<std::byte*>(std::aligned_alloc(kHugePage, size))),
            .bytes = size};
  if (slab.memory == nullptr) throw std::bad_alloc();
  ::madvise(slab.memory.get(), size, MADV_HUGEPAGE);  // a hint: failure changes nothing
  std::byte* begin = slab.memory.get();
  slabs_.emplace(begin, std::move(slab));
  mapped_ += size;
  add_free(begin, size);
}

void SlabMemory::remove(Slabs::iterator slab) {
  remove_free(slab->first);
  mapped_ -= slab->second.bytes;
  slabs_.erase(slab);
}

void SlabMemory::remove_free(std::byte* begin) {
  const auto found = free_.find(begin);
  by_size_.erase({found->second, begin});
  free_.erase(found);
}

void SlabMemory::evict() {
  const std::size_t most = std::max(most_lately_, most_before_);
  const std::size_t allowed = 2 * most + 2 * kHugePage;  // half of it for what does not fit exactly
  while (mapped_ - in_use_ > allowed) {
    auto oldest = slabs_.end();
    for (auto slab = slabs_.begin(); slab != slabs_.end(); ++slab) {
      if (slab->second.blocks > 0) continue;
      if (oldest == slabs_.end() || slab->second.idle_since < oldest->second.idle_since) oldest = slab;
    }
    if (oldest == slabs_.end()) return;
    remove(oldest);
  }
}

Workspace::Workspace() : memory_(std::make_shared<SlabMemory>()) {}

at::Tensor Workspace::empty(at::IntArrayRef sizes, const at::TensorOptions& options) const {
  std::size_t bytes = c10::elementSize(c10::typeMetaToScalarType(options.dtype()));
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  if (bytes < kSmall || !options.device().is_cpu()) return at::empty(sizes, options);
  return at::from_blob(
      memory_->take(bytes), sizes,
      [memory = memory_](void* block) { memory->give_back(static_cast<std::byte*>(block)); }, options);
}

void Workspace::trim() const { memory_->trim(); }

std::size_t Workspace::mapped_bytes() const { return memory_->mapped_bytes(); }

}  // namespace hooked
