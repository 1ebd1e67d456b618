#include "models/families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hooked/core/error.h"

namespace hooked {

// Read twice, so that a family is one row: its declaration and its place.
#define FAMILY(name) extern const Family name;
#include "models/families/table.inc"
#undef FAMILY

std::span<const Family> families() {
#define FAMILY(name) name,
  static const Family kFamilies[] = {
#include "models/families/table.inc"
  };
#undef FAMILY
  return kFamilies;
}

const Family& family_of(std::string_view model_type, std::string_view where) {
  std::vector<std::string_view> known;
  for (const Family& family : families()) {
    if (family.model_type == model_type) return family;
    known.push_back(family.model_type);
  }
  throw ConfigError(where, fmt::format("model_type '{}' is not supported; expected one of [{}]", model_type,
                                       fmt::join(known, ", ")));
}

}  // namespace hooked
