#include "core/out_of_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <new>
#include <string>
#include <typeinfo>

#include "core/size_text.h"

namespace hooked {
namespace {

/// A phrase in a c10::Error that says that memory ran out.
struct Saying {
  std::string_view words;
  bool of_host;
};
constexpr std::array kSayings = {
    Saying{"DefaultCPUAllocator: can't allocate memory", true},
    Saying{"CUDA out of memory", false},
    // Outside LibTorch's allocator: graphs, and the matrix product libraries, which allocate for themselves.
    Saying{"CUDA error: out of memory", false},
    Saying{"CUBLAS_STATUS_ALLOC_FAILED", false},
    Saying{"CUDNN_STATUS_ALLOC_FAILED", false},
};

// The number and the unit after `Tried to allocate` or `you tried to allocate`.
std::optional<std::uint64_t> needed_bytes(std::string_view text) {
  constexpr std::string_view kBefore = "ried to allocate ";
  constexpr std::array<std::string_view, 4> kUnits = {" bytes", " KiB", " MiB", " GiB"};
  const auto found = text.find(kBefore);
  if (found == std::string_view::npos) return std::nullopt;
  text.remove_prefix(found + kBefore.size());
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  for (const std::string_view unit : kUnits) {
    if (text.starts_with(unit)) return static_cast<std::uint64_t>(number);
    number *= 1024;
  }
  return std::nullopt;
}

struct Room {
  std::uint64_t free, total;  // bytes
};

// For a device other than the host; nothing if its backend does not report it.
std::optional<Room> room_of(const c10::Device& device) {
  if (device.is_cpu()) return std::nullopt;
  try {
    auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    if (allocator == nullptr) return std::nullopt;
    const auto [free, total] = allocator->getMemoryInfo(device.index());
    // Freed memory stays with the allocator, which hands it out again.
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = allocator->getDeviceStats(device.index());
    const std::int64_t kept = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
    return Room{free + static_cast<std::uint64_t>(std::max<std::int64_t>(kept, 0)), total};
  } catch (const std::exception&) {  // a backend without these numbers
    return std::nullopt;
  }
}

}  // namespace

std::optional<OutOfMemory> out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return OutOfMemory{.of_host = true};
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  if (of_torch == nullptr) return std::nullopt;
  const std::string_view text = of_torch->what_without_backtrace();
  const auto said = std::find_if(kSayings.begin(), kSayings.end(), [&](const Saying& saying) {
    return text.find(saying.words) != std::string_view::npos;
  });
  if (said == kSayings.end() && dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr) {
    return std::nullopt;
  }
  return OutOfMemory{.of_host = said != kSayings.end() && said->of_host, .needed = needed_bytes(text)};
}

bool tells_of_memory(const std::exception& error) {
  return dynamic_cast<const MemoryError*>(&error) != nullptr || out_of_memory(error).has_value();
}

bool is_of_onednn(const std::exception& error) {
  return std::string_view(typeid(error).name()) == "N4dnnl5errorE";  // LibTorch does not install its header
}

MemoryError memory_error(const OutOfMemory& said, const MemoryUse& use) {
  std::string text = said.of_host ? "the host's memory ran out" : "the device's memory ran out";
  if (said.needed) text += fmt::format("; expected room for another {}", size_text(*said.needed));
  std::string free;
  for (const c10::Device& device : use.devices) {
    const auto room = said.of_host ? std::nullopt : room_of(device);
    if (!room) continue;
    free += fmt::format("{}{} has {} of {} free", free.empty() ? "" : ", ", device.str(),
                        size_text(room->free), size_text(room->total));
  }
  if (!free.empty()) text += "; with all of it freed, " + free;
  return {use.where, fmt::format("{}; {}", text, use.cure)};
}

}  // namespace hooked
