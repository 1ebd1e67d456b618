#include "hooked/engine/hook_handle.h"

#include "engine/scoped_hooks.h"

namespace hooked {

HookHandle& HookHandle::operator=(HookHandle&& other) noexcept {
  if (this != &other) {
    remove();
    hooks_ = std::move(other.hooks_);
    id_ = other.id_;
    other.hooks_.reset();
  }
  return *this;
}

void HookHandle::remove() noexcept {
  if (const auto hooks = hooks_.lock()) hooks->remove(id_);
  hooks_.reset();
}

}  // namespace hooked
