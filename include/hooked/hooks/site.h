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

/// Where in a model's path a site is.
enum class SiteScope : std::uint8_t {
  entry,         ///< before the first block
  block,         ///< once in each block
  encoder_exit,  ///< after the encoder's last block
  exit,          ///< after the last block
  dictionary,    ///< inside a dictionary, wherever that stands
};

/// Steps of weight processing (weights/processing.h), each of which may change what a site holds.
struct SiteSteps {
  bool folded;      ///< fold_ln
  bool centred;     ///< center_writing_weights
  bool value_bias;  ///< fold_value_biases
  bool refactored;  ///< refactor_factored_attn_matrices
  bool logits;      ///< center_unembed
};

/// One row of the table of sites: everything that is known about an activation point.
struct SiteRow {
  Site site;        ///< the site that this row describes
  SiteScope scope;  ///< where it is in a model's path
  /// The stack of an encoder-decoder that has the point; nothing if both stacks have it.
  std::optional<Stack> stack;
  /// Path in the module graph, with `{stack}`, `{layer}`, `{expert}` and `{host}` for the parts of the name.
  std::string_view path;
  /// The word for it in `act::` factories and in the field's shorthand: `pattern`, `resid_pre`.
  std::string_view word;
  AxisList axes;           ///< of the activation, first dimension first
  bool wide;               ///< not in the default set, only on request
  bool changes_plan;       ///< a hook or edit here makes the run take another path (equal up to rounding)
  bool integers;           ///< ids (int64): no gradients; only set and replace edits
  bool asked_rows;         ///< covers only the positions whose logits are asked for
  double unseen;           ///< the value at keys that a query does not see
  SiteSteps changed_by;    ///< the steps of weight processing that change what it holds
  Part part;               ///< models with this part have the point
  std::string_view holds;  ///< what it holds, in words

  /// Whether a model has the point; `layer` matters for sites of scope block, and is -1 for the others.
  bool exists(const ModelConfig& config, std::int64_t layer) const {
    return has(config, part, {stack.value_or(Stack::none), layer});
  }
};

/// The table, in the order in which the points of a pre-norm block fire.
std::span<const SiteRow> site_table() noexcept;

/// The row of a site.
const SiteRow& row(Site site) noexcept;

/// Whether each expert of a layer has a point of this site; names then include an expert.
inline bool per_expert(const SiteRow& row) noexcept { return row.axes.find(Axis::routed).has_value(); }

/// Whether a site may be in that stack of blocks. Sites outside blocks are in none.
inline bool stands_in(const SiteRow& row, Stack stack) noexcept {
  return row.scope != SiteScope::block || row.stack.value_or(stack) == stack;
}

/// The axis of `site` that `axis` means there: itself, one with the same written name (`d_value` is written
/// `d_head`), or, on sites that have those instead, `query` for `pos` and `kv_head` for `head`. Nothing if
/// the site has none of these.
std::optional<Axis> axis_on(Site site, Axis axis) noexcept;

/// The dimension along which the columns of a sequence follow each other: that of positions, of queries, or
/// of the tokens routed to an expert.
std::int64_t sequence_dimension(Site site) noexcept;

}  // namespace hooked
