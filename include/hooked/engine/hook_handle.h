#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

class ScopedHooks;

/// Keeps a scoped hook attached; detaches it at the end of its scope or on `remove()`. Move-only. May outlive
/// the model it came from. A run in progress keeps the hooks it started with.
class [[nodiscard]] HookHandle {
 public:
  /// For the engine.
  HookHandle(std::weak_ptr<ScopedHooks> hooks, std::uint64_t id) : hooks_(std::move(hooks)), id_(id) {}
  /// Takes the hook over from `other`, which is left empty.
  HookHandle(HookHandle&& other) noexcept : hooks_(std::move(other.hooks_)), id_(other.id_) {
    other.hooks_.reset();
  }
  HookHandle& operator=(HookHandle&& other) noexcept;
  HookHandle(const HookHandle&) = delete;
  HookHandle& operator=(const HookHandle&) = delete;
  ~HookHandle() { remove(); }

  /// Detaches now. Calling it twice is harmless.
  void remove() noexcept;

 private:
  std::weak_ptr<ScopedHooks> hooks_;
  std::uint64_t id_;
};

}  // namespace hooked
