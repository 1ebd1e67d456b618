#include "hooked/hooks/site.h"

#include <limits>

namespace hooked {
namespace {
namespace sites {  // short names for the columns of the table

using enum Axis;

// What the column `kind` says of a row: where the site is, and how its path begins.
struct Kind {
  SiteScope scope;
  std::optional<Stack> stack;
};

namespace kinds {

constexpr Kind entry{SiteScope::entry, Stack::encoder};  // where the encoder's tokens pass
constexpr Kind block{SiteScope::block, std::nullopt};
constexpr Kind expert = block;
constexpr Kind cross{SiteScope::block, Stack::decoder};
constexpr Kind encoder_exit{SiteScope::encoder_exit, Stack::encoder};
constexpr Kind exit{SiteScope::exit, Stack::decoder};
constexpr Kind dictionary{SiteScope::dictionary, std::nullopt};

}  // namespace kinds

#define PATH_entry ""
#define PATH_block "{stack}.{layer}."
#define PATH_expert "{stack}.{layer}.mlp.experts.{expert}."
#define PATH_cross "decoder.{layer}."
#define PATH_encoder_exit ""
#define PATH_exit ""
#define PATH_dictionary "{host}."

// The column `flags`.
constexpr unsigned none = 0, wide = 1, replans = 2, ids = 4, asked_rows = 8, masked = 16, folded = 32,
                   centred = 64, value_bias = 128, refactored = 256, logits = 512;

constexpr SiteSteps changed_by(unsigned flags) {
  return {.folded = (flags & folded) != 0,
          .centred = (flags & centred) != 0,
          .value_bias = (flags & value_bias) != 0,
          .refactored = (flags & refactored) != 0,
          .logits = (flags & logits) != 0};
}

// The column `axes`.
constexpr AxisList layout(auto... axes) { return {axes...}; }

constexpr SiteRow kSites[] = {
#define HOOKED_ROW(site, kind, path, axes, flags, exists, holds)           \
  {Site::site,                                                             \
   kinds::kind.scope,                                                      \
   kinds::kind.stack,                                                      \
   PATH_##kind path,                                                       \
   #site,                                                                  \
   layout axes,                                                            \
   ((flags)&wide) != 0,                                                    \
   ((flags)&replans) != 0,                                                 \
   ((flags)&ids) != 0,                                                     \
   ((flags)&asked_rows) != 0,                                              \
   ((flags)&masked) != 0 ? -std::numeric_limits<double>::infinity() : 0.0, \
   changed_by(flags),                                                      \
   Part::exists,                                                           \
   holds},
#define HOOKED_SITE(kind, word, path, axes, flags, exists, holds) \
  HOOKED_ROW(word, kind, path, axes, flags, exists, holds)
#define HOOKED_NORM(kind, word, path, scale_axes, axes, flags, exists, divides_by, holds)               \
  HOOKED_ROW(word##_scale, kind, path ".hook_scale", scale_axes, (flags) | replans, exists, divides_by) \
  HOOKED_ROW(word##_normalized, kind, path ".hook_normalized", axes, (flags) | replans, exists, holds)
#include "hooked/hooks/sites.inc"
#undef HOOKED_ROW
};

#undef PATH_entry
#undef PATH_block
#undef PATH_expert
#undef PATH_cross
#undef PATH_encoder_exit
#undef PATH_exit
#undef PATH_dictionary

}  // namespace sites
}  // namespace

std::span<const SiteRow> site_table() noexcept { return sites::kSites; }

const SiteRow& row(Site site) noexcept { return sites::kSites[static_cast<std::size_t>(site)]; }

std::optional<Axis> axis_on(Site site, Axis axis) noexcept {
  const AxisList& axes = row(site).axes;
  if (axes.find(axis)) return axis;
  const auto written = [&](Axis wanted) -> std::optional<Axis> {
    for (const Axis own : axes) {
      if (axis_name(own) == axis_name(wanted)) return own;
    }
    return std::nullopt;
  };
  if (const auto own = written(axis)) return own;
  if (axis == Axis::pos) return written(Axis::query);
  if (axis == Axis::head) return written(Axis::kv_head);
  return std::nullopt;
}

std::int64_t sequence_dimension(Site site) noexcept {
  return *row(site).axes.find(axis_on(site, Axis::pos).value_or(Axis::routed));
}

}  // namespace hooked
