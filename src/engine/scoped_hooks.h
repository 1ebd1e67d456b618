#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/hooks/hook.h"

namespace hooked {

/// The hooks attached to one handle, in order of attachment.
class ScopedHooks {
 public:
  /// Throws HookError while a hook of another thread is attached.
  std::uint64_t add(Hook hook) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, attached] : hooks_) {
      if (attached.by == std::this_thread::get_id()) continue;
      throw HookError("hook",
                      "a hook that another thread attached is on this handle, and each would run in the "
                      "other's runs; expected a handle of this thread's own; copy it: `auto own = model;`");
    }
    hooks_.emplace(++last_id_, Attached{std::move(hook), std::this_thread::get_id()});
    return last_id_;
  }

  void remove(std::uint64_t id) {
    // Declared first, so that the callable is destroyed after unlocking: it may own handles of other hooks.
    std::map<std::uint64_t, Attached>::node_type removed;
    const std::lock_guard lock(mutex_);
    removed = hooks_.extract(id);
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return hooks_.empty();
  }

  /// The hooks that a run starts with; changes made while it runs take effect in the next one.
  Hooks snapshot() const {
    const std::lock_guard lock(mutex_);
    Hooks hooks;
    for (const auto& [id, attached] : hooks_) hooks.push_back(attached.hook);
    return hooks;
  }

 private:
  struct Attached {
    Hook hook;
    std::thread::id by;
  };

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Attached> hooks_;
  std::uint64_t last_id_ = 0;
};

}  // namespace hooked
