#include "tests/support/strict_device/memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/strict_device/limits.h"

namespace hooked::strict {
namespace {

struct Block {
  std::size_t bytes = 0;
  c10::DeviceIndex device = 0;  // of the tensor that has it
  int users = 0;                // kernels that are working on it
  bool fresh = true;            // nobody has opened it since it was allocated
};

struct Memory {
  std::mutex mutex;
  std::map<void*, Block> blocks;                   // of the device, by their first page
  std::map<std::size_t, std::vector<void*>> free;  // free ones, by size
  std::map<const void*, std::size_t> pinned;       // of the host
};

// The last tensors may go after every static.
Memory& memory() {
  static auto* const one = new Memory;
  return *one;
}

thread_local c10::DeviceIndex device_of_thread = 0;

// Blocks are reused: the system takes longer to provide pages than the kernels of tests take.
void release(void* pages) {
  const std::lock_guard lock(memory().mutex);
  Block& block = memory().blocks.at(pages);
  block.fresh = true;
  give_memory_back(block.device, block.bytes);
  memory().free[block.bytes].push_back(pages);
}

std::size_t in_pages(std::size_t bytes) {
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + kPage - 1) / kPage * kPage;
}

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device(c10::DeviceType::PrivateUse1, device_of_thread);
    if (bytes == 0) return {nullptr, nullptr, [](void*) {}, device};
    const std::size_t size = in_pages(bytes);
    const std::lock_guard lock(memory().mutex);
    take_memory(device.index(), size, bytes);
    std::vector<void*>& free = memory().free[size];
    if (free.empty()) {
      void* const fresh = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      TORCH_CHECK(fresh != MAP_FAILED, "strict device: the host's memory ran out");
      memory().blocks.emplace(fresh, Block{.bytes = size});
      free.push_back(fresh);
    }
    void* const pages = free.back();
    free.pop_back();
    memory().blocks.at(pages).device = device.index();
    return {pages, pages, &release, device};
  }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {
    TORCH_CHECK(false, "strict device: the host cannot copy its memory");
  }

  // What LibTorch may ask of a device's memory.
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    stats.allocated_bytes[kAll].current = stats.reserved_bytes[kAll].current = bytes_in_use(device);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const std::int64_t all = memory_of_device();
    return {static_cast<std::size_t>(std::max<std::int64_t>(all - bytes_in_use(device), 0)),
            static_cast<std::size_t>(all)};
  }
};

void release_pinned(void* data) {
  {
    const std::lock_guard lock(memory().mutex);
    memory().pinned.erase(data);
  }
  std::free(data);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = std::malloc(bytes + 1);
    const std::lock_guard lock(memory().mutex);
    memory().pinned.emplace(data, bytes);
    return {data, data, &release_pinned, at::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

struct sigaction action_before = {};

// Only what a signal handler may do; the lock is not taken, because this thread may hold it.
void report_touch(int signal, siginfo_t* info, void* context) {
  const auto after = memory().blocks.upper_bound(info->si_addr);
  bool ours = false;
  if (after != memory().blocks.begin()) {
    const auto block = std::prev(after);
    ours = info->si_addr < static_cast<char*>(block->first) + block->second.bytes;
  }
  if (!ours) {
    if ((action_before.sa_flags & SA_SIGINFO) != 0 && action_before.sa_sigaction != nullptr) {
      return action_before.sa_sigaction(signal, info, context);
    }
    ::signal(signal, SIG_DFL);  // the access fails again
    return;
  }
  constexpr const char* kText =
      "strict device: the host touched memory of the device, outside of a kernel, at\n";
  if (write(STDERR_FILENO, kText, std::strlen(kText)) < 0) _exit(139);
  std::array<void*, 64> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), static_cast<int>(frames.size())),
                       STDERR_FILENO);
  _exit(139);
}

}  // namespace

c10::DeviceIndex current_device() noexcept { return device_of_thread; }
void set_current_device(c10::DeviceIndex index) noexcept { device_of_thread = index; }

c10::Allocator* device_allocator() {
  static auto* const one = new DeviceAllocator;
  return one;
}

c10::Allocator* pinned_allocator() {
  static auto* const one = new PinnedAllocator;
  return one;
}

bool is_pinned(const void* data) {
  const std::lock_guard lock(memory().mutex);
  const auto after = memory().pinned.upper_bound(data);
  if (after == memory().pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return data < static_cast<const char*>(begin) + bytes;
}

bool on_device(const at::Tensor& tensor) { return tensor.device().is_privateuseone(); }

at::Tensor borrowed(const at::Tensor& tensor) {
  const c10::Storage& own = tensor.storage();
  c10::Storage storage(c10::Storage::use_byte_size_t(), own.nbytes(),
                       c10::DataPtr(const_cast<void*>(own.data()), tensor.device()), /*allocator=*/nullptr,
                       /*resizable=*/false);
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
  return made;
}

c10::Storage& OpenMemory::host_storage(const c10::Storage& storage) {
  auto [found, is_new] = storages_.try_emplace(storage.unsafeGetStorageImpl());
  if (!is_new) return found->second;
  void* const pages = const_cast<void*>(storage.data());
  if (storage.nbytes() > 0) {
    const std::lock_guard lock(memory().mutex);
    const auto block = memory().blocks.find(pages);
    TORCH_CHECK(block != memory().blocks.end(),
                "strict device: a tensor that is said to lie on the device has memory of the host");
    if (block->second.users++ == 0) mprotect(pages, block->second.bytes, PROT_READ | PROT_WRITE);
    if (block->second.fresh) {
      std::memset(pages, 0xff, block->second.bytes);  // NaN in floating dtypes, -1 in integers
      block->second.fresh = false;
    }
    opened_.push_back(pages);
  }
  found->second =
      c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), c10::DataPtr(pages, at::kCPU),
                   /*allocator=*/nullptr, /*resizable=*/false);
  return found->second;
}

at::Tensor OpenMemory::alias(const at::Tensor& tensor) {
  auto made =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(host_storage(tensor.storage())),
                                               c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
  return made;
}

OpenMemory::~OpenMemory() {
  const std::lock_guard lock(memory().mutex);
  for (void* const pages : opened_) {
    Block& block = memory().blocks.at(pages);
    if (--block.users == 0) mprotect(pages, block.bytes, PROT_NONE);
  }
}

void watch_for_touches() {
  struct sigaction action = {};
  action.sa_sigaction = &report_touch;
  action.sa_flags = SA_SIGINFO;
  std::array<void*, 1> first{};
  backtrace(first.data(), 1);  // the first call loads a library, which a signal handler may not
  sigaction(SIGSEGV, &action, &action_before);
}

}  // namespace hooked::strict
