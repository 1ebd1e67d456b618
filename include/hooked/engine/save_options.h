#pragma once

#include "hooked/core/export.h"
#include "hooked/core/progress.h"

namespace HOOKED_EXPORT hooked {

/// How a model is saved. For designated initialisers.
struct SaveOptions {
  Progress progress = nullptr;  ///< bytes of weights written
  /// Store matrices as this machine's processor multiplies them, in `packed.safetensors` instead of
  /// `model.safetensors`: such a folder is mapped instead of read (docs/deploying.md).
  bool packed = false;
};

}  // namespace hooked
