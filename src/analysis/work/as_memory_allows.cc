#include "analysis/work/as_memory_allows.h"

#include <algorithm>

namespace hooked {

MemoryUse memory_of_analysis(const c10::Device& device, std::string_view where) {
  return {.where = where, .cure = "give fewer or shorter rows", .devices = {device}};
}

std::int64_t as_memory_allows(const c10::Device& device, std::string_view where, std::int64_t count,
                              std::int64_t most,
                              const std::function<void(std::int64_t begin, std::int64_t end)>& work) {
  const MemoryUse memory = memory_of_analysis(device, where);
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t end = begin + std::min(most, count - begin);
    try {
      with_memory(memory, [&] { work(begin, end); });
      begin = end;
    } catch (const MemoryError&) {
      if (end - begin == 1) throw;
      most = (end - begin + 1) / 2;
    }
  }
  return most;
}

}  // namespace hooked
