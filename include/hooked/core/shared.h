#pragma once

#include <memory>
#include <utility>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Throws an Error saying that this `noun` was moved from.
[[noreturn]] void refuse_moved_from(const char* noun);

/// The object that a handle and its copies share. A handle that was moved from no longer has one: using it
/// throws an Error.
template <typename T>
class Shared {
 public:
  /// `noun` is what users call the handle, a literal: `model`.
  Shared(std::shared_ptr<T> object, const char* noun) : object_(std::move(object)), noun_(noun) {}

  /// The object. Throws an Error in a handle that was moved from.
  T& operator*() const& { return *require(); }
  T& operator*() const&& = delete;  ///< the object may be gone with the temporary
  /// The same.
  T* operator->() const& { return require().get(); }
  T* operator->() const&& = delete;  ///< the object may be gone with the temporary
  /// The same as a pointer, to be shared further.
  std::shared_ptr<T> pointer() const { return require(); }

 private:
  const std::shared_ptr<T>& require() const {
    if (!object_) refuse_moved_from(noun_);
    return object_;
  }

  std::shared_ptr<T> object_;
  const char* noun_;
};

}  // namespace hooked
