#pragma once

#include <cstdlib>

namespace hooked {

/// Whether LibTorch's operators are taken where there are kernels of our own: HOOKED_PLAIN_KERNELS is set in
/// the environment. For tests and comparisons.
inline bool plain_kernels() {
  static const bool kPlain = std::getenv("HOOKED_PLAIN_KERNELS") != nullptr;
  return kPlain;
}

}  // namespace hooked
