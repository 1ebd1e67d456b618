#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "hooked/core/axis.h"
#include "hooked/core/block_place.h"
#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/core/part.h"

namespace HOOKED_EXPORT hooked {

/// A kind of activation point. With a layer it is an ActivationName. The table `sites.inc` lists them all.
enum class Site : std::uint8_t {
#define HOOKED_SITE(kind, word, ...) word,
#define HOOKED_NORM(kind, word, ...) word##_scale, word##_normalized,
#include "hooked/hooks/sites.inc"
};

/// Where in a model's path a site stands.
enum class SiteScope : std::uint8_t {
  entry,         ///< before the first block
  block,         ///< once in each block
  encoder_exit,  ///< after the encoder's last block
  exit,          ///< after the last block
};

/// One row of the table of sites: everything that is known about an activation point.
struct SiteRow {
  Site site;        ///< whose row this is
  SiteScope scope;  ///< where it stands in a model's path
  /// The stack of an encoder-decoder that has the point; nothing where the blocks of both have it.
  std::optional<Stack> stack;
  /// Path in the module graph; `{stack}`, `{layer}` and `{expert}` stand for the name's parts.
  std::string_view path;
  /// The word the `act::` factories and the field's shorthand use: `pattern`, `resid_pre`.
  std::string_view word;
  AxisList axes;           ///< of the activation, first dimension first
  bool wide;               ///< only on request, not in the default set
  bool changes_plan;       ///< a hook or edit here makes the run take another (equal up to rounding) path
  bool integers;           ///< ids (int64): no gradients, edits only set and replace
  bool asked_rows;         ///< covers only the positions whose logits are asked for
  double unseen;           ///< the value at keys that a query cannot see
  Part part;               ///< models with this part have the point
  std::string_view holds;  ///< what it holds, in words

  /// Whether a model has the point; `layer` counts for sites of scope block, and is -1 for the others.
  bool exists(const ModelConfig& config, std::int64_t layer) const {
    return has(config, part, {stack.value_or(Stack::none), layer});
  }
};

/// The table, in the order in which the points of a pre-norm block fire.
std::span<const SiteRow> site_table() noexcept;

/// The row of a site.
const SiteRow& row(Site site) noexcept;

/// Whether each expert of a layer has a point of this site; then a name has an expert.
inline bool per_expert(const SiteRow& row) noexcept { return row.axes.find(Axis::routed).has_value(); }

/// Whether a site may stand in that stack of blocks. Sites outside blocks stand in none of them.
inline bool stands_in(const SiteRow& row, Stack stack) noexcept {
  return row.scope != SiteScope::block || row.stack.value_or(stack) == stack;
}

/// The axis of `site` that `axis` means there: itself, or the one that is written alike (`d_value` is written
/// `d_head`), or `query` for `pos` and `kv_head` for `head` on sites that have those instead. Nothing when
/// the site has none of them.
std::optional<Axis> axis_on(Site site, Axis axis) noexcept;

/// The dimension along which the columns of a sequence follow each other: that of positions or queries, or of
/// the tokens that an expert got.
std::int64_t sequence_dimension(Site site) noexcept;

}  // namespace hooked
