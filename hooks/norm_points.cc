#include "hooks/norm_points.h"

#include <algorithm>

namespace hooked {
namespace {

constexpr NormPoints kNorms[] = {
#define HOOKED_SITE(...)
#define HOOKED_NORM(kind, word, ...) {Site::word##_scale, Site::word##_normalized},
#include "hooked/hooks/sites.inc"
};

}  // namespace

std::optional<NormPoints> norm_with(Site point) {
  const auto* const found = std::ranges::find_if(
      kNorms, [point](const NormPoints& norm) { return norm.scale == point || norm.normalized == point; });
  return found == std::ranges::end(kNorms) ? std::nullopt : std::optional(*found);
}

ActivationName scale_of(const ActivationName& normalized) {
  ActivationName scale = normalized;
  scale.site = norm_with(normalized.site)->scale;
  return scale;
}

}  // namespace hooked
