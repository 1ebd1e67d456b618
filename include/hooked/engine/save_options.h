#pragma once

#include "hooked/core/export.h"
#include "hooked/core/progress.h"

namespace HOOKED_EXPORT hooked {

/// How a model is saved. For designated initialisers.
struct SaveOptions {
  Progress progress = nullptr;  ///< bytes of weights written
};

}  // namespace hooked
