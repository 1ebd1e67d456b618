#include "models/workspace.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace hooked {
namespace {

// Below this the C library serves memory that is mapped already.
constexpr std::size_t kSmall = std::size_t{64} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Four sizes per power of two: at most a quarter is wasted, and runs of nearby lengths share blocks.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

class Workspace::Blocks {
 public:
  ~Blocks() {
    for (const auto& [bytes, blocks] : idle_) {
      for (void* block : blocks) std::free(block);
    }
  }

  void* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      in_use_ += bytes;
      most_in_use_ = std::max(most_in_use_, in_use_);
      if (const auto found = idle_.find(bytes); found != idle_.end() && !found->second.empty()) {
        void* block = found->second.back();
        found->second.pop_back();
        idle_bytes_ -= bytes;
        return block;
      }
    }
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (block == nullptr) {
      const std::lock_guard lock(mutex_);
      in_use_ -= bytes;
      throw std::bad_alloc();
    }
    if (bytes >= kHugePage) ::madvise(block, bytes, MADV_HUGEPAGE);  // a hint: failure changes nothing
    return block;
  }

  void give_back(void* block, std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      in_use_ -= bytes;
      if (idle_bytes_ + bytes <= most_in_use_) {
        idle_[bytes].push_back(block);
        idle_bytes_ += bytes;
        return;
      }
    }
    std::free(block);
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> idle_;  // by rounded size in bytes
  std::size_t idle_bytes_ = 0;
  std::size_t in_use_ = 0;
  std::size_t most_in_use_ = 0;
};

Workspace::Workspace() : blocks_(std::make_shared<Blocks>()) {}

at::Tensor Workspace::empty(at::IntArrayRef sizes, const at::TensorOptions& options) const {
  std::size_t bytes = c10::elementSize(c10::typeMetaToScalarType(options.dtype()));
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  if (bytes < kSmall || !options.device().is_cpu()) return at::empty(sizes, options);
  const std::size_t block_bytes = rounded(bytes);
  void* block = blocks_->take(block_bytes);
  return at::from_blob(
      block, sizes, [blocks = blocks_, block_bytes](void* memory) { blocks->give_back(memory, block_bytes); },
      options);
}

}  // namespace hooked
