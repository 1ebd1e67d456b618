#include "hooked/core/shared.h"

#include <fmt/format.h>

#include "hooked/core/error.h"

namespace hooked {

void refuse_moved_from(const char* noun) {
  throw Error(
      noun, fmt::format("this {} was moved from; expected one that nothing was moved out of; use what it was "
                        "moved to, or copy it instead of moving it",
                        noun));
}

}  // namespace hooked
