#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "hooked/hooks/hook.h"

namespace hooked {

/// The hooks that are attached to one handle, in order of attachment.
class ScopedHooks {
 public:
  std::uint64_t add(Hook hook) {
    const std::lock_guard lock(mutex_);
    hooks_.emplace(++last_id_, std::move(hook));
    return last_id_;
  }

  void remove(std::uint64_t id) {
    // Declared first, so that the callable dies after the lock: it may own handles of other hooks here.
    std::map<std::uint64_t, Hook>::node_type removed;
    const std::lock_guard lock(mutex_);
    removed = hooks_.extract(id);
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return hooks_.empty();
  }

  /// What a run starts with: changes made while it is under way take effect in the next one.
  std::vector<Hook> snapshot() const {
    const std::lock_guard lock(mutex_);
    std::vector<Hook> hooks;
    for (const auto& [id, hook] : hooks_) hooks.push_back(hook);
    return hooks;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Hook> hooks_;
  std::uint64_t last_id_ = 0;
};

}  // namespace hooked
