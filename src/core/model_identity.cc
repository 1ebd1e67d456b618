#include "hooked/core/model_identity.h"

#include <fmt/format.h>

#include "core/json.h"

namespace hooked {

std::string ModelIdentity::text() const {
  constexpr std::size_t digits = 8;
  return fmt::format(
      "{} (fingerprint {})",
      name.empty() ? std::string("a model without a name") : fmt::format("'{}'", printable(name)),
      fingerprint.substr(0, digits));
}

}  // namespace hooked
