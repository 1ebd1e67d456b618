#pragma once

#include <string>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Which model something was computed with. Two handles are the same model if their configs and weights are
/// equal, whatever they were loaded from.
struct ModelIdentity {
  std::string name;         ///< as given to HookedTransformer::load; empty if it was not loaded
  std::string fingerprint;  ///< SHA-1 of the config and of a sample of every weight, in hexadecimal

  /// For errors: `'gpt2' (fingerprint 3fa94c1e)`.
  std::string text() const;
  /// Whether both are the same model.
  bool operator==(const ModelIdentity& other) const { return fingerprint == other.fingerprint; }
};

}  // namespace hooked
