#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "hooked/core/error.h"

namespace hooked {

/// What the error said when memory ran out.
struct OutOfMemory {
  bool of_host = false;  ///< the host's memory, not a device's
  std::optional<std::uint64_t> needed =
      std::nullopt;  ///< bytes that there was no room for, if the error says so
};

/// What `error` says if memory ran out: on some devices LibTorch has a class for it, on others only words.
/// Nothing if it says something else, or is a MemoryError already.
std::optional<OutOfMemory> out_of_memory(const std::exception& error);

/// Whether `error` says that memory ran out; a MemoryError does, too.
bool tells_of_memory(const std::exception& error);

/// Whether oneDNN, which computes products for LibTorch, failed: in practice for lack of memory for the code
/// that it compiles. It may not be called again after that, as it remembers what it could not finish: so this
/// is none of the errors after which work is retried with less.
bool is_of_onednn(const std::exception& error);

/// Who needs memory, for work that may run out of it.
struct MemoryUse {
  std::string_view where;                 ///< for the error: `run`
  std::string_view cure;                  ///< what to do, for the error: `give fewer rows`
  std::vector<c10::Device> devices = {};  ///< where the work computes
  /// Frees memory that is only kept for later, and returns whether the work may be retried. Null: nothing is
  /// kept.
  std::function<bool(const OutOfMemory&)> make_room = nullptr;
};

/// The error to throw, with what is free on the devices at this moment.
MemoryError memory_error(const OutOfMemory& said, const MemoryUse& use);

/// The result of `work`. If memory runs out, memory is freed and the work is retried once, if possible (OOM
/// retry); then MemoryError is thrown. By then nothing of the work is left.
template <typename Work>
std::invoke_result_t<const Work&> with_memory(const MemoryUse& use, const Work& work) {
  for (bool again = false;; again = true) {
    std::optional<OutOfMemory> said;
    try {
      return work();
    } catch (const std::exception& error) {
      said = out_of_memory(error);
      if (!said) throw;
    }
    if (again || use.make_room == nullptr || !use.make_room(*said)) throw memory_error(*said, use);
  }
}

}  // namespace hooked
